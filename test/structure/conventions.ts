/** How files are named, and what their text may not contain. What Biome checks (`biome.json`) is not here. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { KINDS, kindsOf } from '../jest/kinds.ts';
import { CODE, FILES, importsOf, isIn, ROOT, read, TYPESCRIPT } from './source_tree.ts';

describe('names', () => {
  test('no file and no folder has a meaningless name', () => {
    const nothing = /^(utils?|helpers?|common|tools?|misc|shared|lib)$/;
    const named = FILES.flatMap((file) => file.split('/').map((part) => ({ file, name: part.split('.')[0]! })));
    const wrong = named.filter(({ name }) => nothing.test(name)).map(({ file }) => file);
    expect(wrong).toEqual(['bpf/schema/common.ts']);
  });

  test('files and folders are named in snake_case', () => {
    const paths = FILES.filter((file) => CODE.includes(file)).flatMap((file) => file.split('/'));
    expect(paths.filter((part) => !/^[a-z0-9_]+(\.[a-z0-9_]+)*$/.test(part))).toEqual([]);
  });

  test('the top level holds the parts of the project, and nothing else', () => {
    const allowed = new Set([
      ...['package.json', 'package-lock.json', 'tsconfig.json', 'jest.config.js', 'biome.json', '.clang-format'],
      ...['.gitignore', '.ci', 'agent', 'daemon', 'native', 'bpf', 'test', 'Makefile'],
      ...['README.md', 'LICENSE', 'CHANGELOG.md', 'kreplay.ts'],
    ]);
    const tracked = trackedFiles().map((file) => file.split('/')[0]!);
    expect(tracked.filter((name) => !allowed.has(name))).toEqual([]);
  });
});

/** The files that git tracks; in a tree without git, those that are not built. */
function trackedFiles(): string[] {
  if (!existsSync(join(ROOT, '.git'))) return FILES;
  // The tests run as root, on a tree that may belong to another user.
  const list = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' });
  return list.split('\0').filter((file) => file !== '');
}

describe('suites', () => {
  const SUITES = FILES.filter((file) => file.endsWith('.test.ts'));

  test('a suite of the agent or the daemon lies in a folder that the sources have too', () => {
    const folders = SUITES.filter((file) => /^test\/(agent|daemon)\//.test(file)).map((file) => dirname(file).slice(5));
    expect(folders.filter((folder) => !existsSync(join(ROOT, folder)))).toEqual([]);
  });

  test('the words of a name are known, and in one order', () => {
    const known = Object.keys(KINDS);
    const inOrder = (words: string[]) => words.toSorted((a, b) => known.indexOf(a) - known.indexOf(b));
    const wrong = SUITES.filter((file) => {
      const words = kindsOf(file);
      return words.some((word) => !known.includes(word)) || String(words) !== String(inOrder(words));
    });
    expect(wrong).toEqual([]);
  });

  test.each([
    ['page', ['test/page/browser.ts']],
    ['proxy', ['test/page/proxy_programs.ts']],
    ['fleet', ['test/clickhouse/server.ts']],
  ])('a suite has the word %s if it imports what starts that program', (word, starters) => {
    const starts = (suite: string) => starters.some((file) => testFilesOf(suite).has(file));
    const wrong = SUITES.filter((suite) => starts(suite) !== kindsOf(suite).includes(word));
    expect(wrong).toEqual([]);
  });
});

test('a suite with the word beside needs root, and imports nothing that records or starts a recorder', () => {
  const starters = ['test/kernel/recorded_run.ts', 'test/kernel/recorder_parts.ts', 'test/e2e/kreplay.ts'];
  const besides = FILES.filter((file) => file.endsWith('.test.ts') && kindsOf(file).includes('beside'));
  const wrong = besides.filter(
    (suite) =>
      !kindsOf(suite).includes('root') ||
      starters.some((file) => testFilesOf(suite).has(file)) ||
      importsOf(suite).includes('agent/capture/probes.ts') ||
      read(suite).includes('KREPLAY' + '1'),
  );
  expect([besides.length > 0, wrong]).toEqual([true, []]);
});

/** The files below `test` that a suite imports, also by way of others. */
function testFilesOf(file: string, found = new Set<string>()): Set<string> {
  for (const imported of importsOf(file).filter((one) => isIn(one, 'test') && TYPESCRIPT.includes(one)))
    if (!found.has(imported)) testFilesOf(imported, found.add(imported));
  return found;
}

describe('text', () => {
  test('no mark for unfinished work is left', () => {
    const left = /\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b/;
    // Bytes of a picture may have any letters.
    const texts = FILES.filter((file) => !file.endsWith('.png'));
    const files = [...texts, 'Makefile', '.ci/run', 'README.md', 'CHANGELOG.md'];
    const found = files.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, i) => (left.test(line) ? [`${file}:${i + 1}`] : [])),
    );
    expect(found).toEqual([]);
  });
});

test('README.md has at most 200 lines: longer text has a page in its room', () => {
  expect(read('README.md').split('\n').length - 1).toBeLessThanOrEqual(200);
});
