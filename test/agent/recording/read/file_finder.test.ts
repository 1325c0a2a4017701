/** Tests that files are found by patterns as looking at each path finds them, once for each list of patterns. */
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { createFileFinder, type FileFinder } from '../../../../agent/recording/read/file_finder.ts';
import {
  buildFolderPattern,
  buildPathPattern,
  createPathTest,
  isPatternOfFolder,
} from '../../../../daemon/base/file_pattern.ts';
import { times } from '../../../repeats.ts';

const path = fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom('a', 'b', '/', '/', '*', '\\', 'ü') });
const paths = fc.uniqueArray(path, { minLength: 1, maxLength: 30 });

/** Looks at a pattern from its end, as the documents describe it. */
function isOf(file: string, pattern: string): boolean {
  const [, body, backslashes, end] = /^(.*?)(\\*)([*/])$/s.exec(pattern) ?? [];
  if (body === undefined) return file === pattern;
  const text = body + '\\'.repeat(Math.floor(backslashes!.length / 2));
  if (backslashes!.length % 2 === 1) return file === text + end;
  if (end === '*') return file.startsWith(text);
  const name = file.slice(text.length + 1);
  return file.startsWith(`${text}/`) && name !== '' && !name.includes('/');
}

test('many patterns match what one of them matches', () => {
  fc.assert(
    fc.property(fc.array(path, { maxLength: 20 }), paths, (patterns, files) => {
      const isWanted = createPathTest(patterns);
      for (const file of files) expect(isWanted(file)).toBe(patterns.some((pattern) => isOf(file, pattern)));
    }),
    { numRuns: times(500) },
  );
});

test('the pattern of a path matches that path only, and that of its folder the files that are directly in it', () => {
  fc.assert(
    fc.property(paths, (files) => {
      for (const file of files) {
        expect(isPatternOfFolder(buildPathPattern(file))).toBe(false);
        expect(files.filter(createPathTest([buildPathPattern(file)]))).toEqual([file]);
        const folder = buildFolderPattern(file);
        if (folder === undefined) continue;
        expect(isPatternOfFolder(folder)).toBe(true);
        expect(files.filter(createPathTest([folder]))).toEqual(
          files.filter((other) => buildFolderPattern(other) === folder),
        );
        expect(createPathTest([folder])(file)).toBe(true);
      }
    }),
    { numRuns: times(100) },
  );
});

describe('found files', () => {
  let database: Database.Database;
  let last: number;
  beforeEach(() => {
    database = new Database(':memory:');
    database.exec('CREATE TABLE file (file_id INTEGER PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL) STRICT');
    last = 0;
  });
  afterEach(() => database.close());

  function add(names: readonly string[]): void {
    const insert = database.prepare('INSERT INTO file VALUES (?, ?, ?)');
    database.transaction(() => {
      for (const name of names) insert.run(++last, name, 'regular');
    })();
  }
  const many = (count: number, start = '/m/') => Array.from({ length: count }, (_, i) => `${start}${i}`);
  const found = (finder: FileFinder, ...patterns: string[]) => [...finder.find(patterns)];
  /** The ids that the table has now. */
  const stored = (isWanted: (file: string) => boolean) =>
    (database.prepare('SELECT file_id, path FROM file ORDER BY file_id').raw().all() as [number, string][])
      .filter(([, file]) => isWanted(file))
      .map(([id]) => id);

  test('are those of all that is there, also of what is added later, in ascending order', () => {
    const finder = createFileFinder(database);
    add(['/a/1', '/b/1', '/a/b/1']);
    expect(found(finder, '/a/')).toEqual([1]);
    expect(found(finder, '/a/*', '/b/1', '/b/*')).toEqual([1, 2, 3]);
    add(['/a/1', '/b/2']);
    expect(found(finder, '/a/')).toEqual([1, 4]);
    expect(found(finder, '/b/*', '/b/1', '/a/*')).toEqual([1, 2, 3, 4, 5]);
    expect(found(finder, 'none')).toEqual([]);
  });

  test('very many are kept: only files that are new are looked at, and an answer stays as it was', () => {
    const finder = createFileFinder(database);
    add(many(200_000));
    const first = finder.find(['/*']);
    expect(first).toHaveLength(200_000);
    // What is gone from the table would be missing if the table were read again.
    database.exec('DELETE FROM file WHERE file_id % 2 = 0');
    expect(finder.find(['/*'])).toEqual(first);
    expect(finder.find(['/*']).buffer).toBe(first.buffer);
    add(['/m/new']);
    expect([...finder.find(['/*'])].slice(-2)).toEqual([200_000, 200_001]);
    expect(first).toHaveLength(200_000);
  });

  test('are dropped with what retention removes, when they need room', () => {
    const finder = createFileFinder(database);
    let most = 0;
    for (let round = 0; round < 40; round++) {
      add(many(1000));
      database.prepare('DELETE FROM file WHERE file_id <= ?').run(last - 1500);
      const ids = finder.find(['/*']);
      expect([...ids.filter((id) => id > last - 1500)]).toEqual(stored(() => true));
      most = Math.max(most, ids.length);
    }
    expect(most).toBeLessThan(8000);
  });

  test('lists that are not used are forgotten, and found again', () => {
    const finder = createFileFinder(database, { idsMax: 100 });
    add([...many(300), ...many(300, '/n/')]);
    for (let round = 0; round < 3; round++) {
      expect(found(finder, '/m/')).toEqual(stored((file) => file.startsWith('/m/')));
      expect(found(finder, '/n/')).toEqual(stored((file) => file.startsWith('/n/')));
    }
    const kept = finder.find(['/n/']);
    expect(finder.find(['/n/']).buffer).toBe(kept.buffer);
    finder.find(['/m/']);
    expect(finder.find(['/n/']).buffer).not.toBe(kept.buffer);
  });

  test('are looked for in steps, after which nothing is left to do', () => {
    const finder = createFileFinder(database);
    add(many(70_000));
    expect([...finder.findInSteps(['/*'])].length).toBeGreaterThan(3);
    const ids = finder.find(['/*']);
    expect([ids.length, [...finder.findInSteps(['/*'])]]).toEqual([70_000, []]);
    expect(finder.find(['/*']).buffer).toBe(ids.buffer);
  });
});

test('lists of patterns are forgotten where there are very many, also while no file is recorded', () => {
  const database = new Database(':memory:');
  database.exec('CREATE TABLE file (file_id INTEGER PRIMARY KEY, path TEXT NOT NULL)');
  const finder = createFileFinder(database);
  const first = finder.find(['/first']).buffer;
  expect(finder.find(['/first']).buffer).toBe(first);
  for (let i = 0; i < 600; i++) finder.find([`/other/${i}`]);
  expect(finder.find(['/first']).buffer).not.toBe(first);
  const second = finder.find(['/second']).buffer;
  const long = 'x'.repeat(2 ** 20);
  for (let i = 0; i < 40; i++) finder.find([long + i]);
  expect(finder.find(['/second']).buffer).not.toBe(second);
});
