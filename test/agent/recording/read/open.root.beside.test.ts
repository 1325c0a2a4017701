/** Tests files that are missing, foreign, newer, damaged or out of reach: each has its code, and nothing crashes. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import type { Loss } from '../../../../agent/recording/format/losses.ts';
import { FORMAT_VERSION } from '../../../../agent/recording/format/schema.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import type { NumberedBlock } from '../../../../bpf/schema/block.ts';
import { times } from '../../../repeats.ts';
import { AS_NOBODY } from '../../../unprivileged.ts';
import { blockOf, type Row, rowsOf, START_NS, temporaryFolder, testWriter } from '../fixture.ts';

const folder = temporaryFolder();
const good = join(folder.path, 'recording.kreplay');
const path = join(folder.path, 'copy.kreplay');

beforeAll(() => {
  const writer = testWriter(good);
  for (let i = 0; i < 3; i++) {
    writer.append(
      blockOf(
        Array.from({ length: 700 }, (_, row) => ({
          ...(original(row) as Row),
          context: writer.contextId({ transactionId: `tx-${row % 9}`, traceId: null, spanId: null }),
          service: writer.nameId('shop'),
        })),
      ),
    );
    writer.flush();
  }
  writer.close();
});
afterAll(() => folder.remove());
beforeEach(() => copyFileSync(good, path));

const withCode = (code: string) => expect.objectContaining({ code });
const sql = (text: string) => {
  const database = new Database(path);
  database.exec(text);
  database.close();
};
const opening: Record<string, (file: string) => unknown> = { reader: openReader, writer: testWriter };

test('a missing recording', () => {
  expect(() => openReader(join(folder.path, 'none'))).toThrow(withCode('recording_missing'));
});

test('a file that its creator has not filled yet', () => {
  writeFileSync(path, '');
  expect(() => openReader(path)).toThrow(withCode('recording_missing'));
  testWriter(path).close();
  expect(openReader(path).info().eventCount).toBe(0);
});

test.each(Object.keys(opening))('the %s refuses what is not a recording', (kind) => {
  writeFileSync(path, 'a text that is long enough to be more than an SQLite header '.repeat(20));
  expect(() => opening[kind]!(path)).toThrow(withCode('not_a_recording'));
});

test.each(Object.keys(opening))('the %s refuses a foreign database', (kind) => {
  sql('PRAGMA application_id = 7');
  expect(() => opening[kind]!(path)).toThrow(withCode('not_a_recording'));
});

test.each(Object.keys(opening))('the %s refuses a newer version', (kind) => {
  sql(`PRAGMA user_version = ${FORMAT_VERSION + 1}`);
  expect(() => opening[kind]!(path)).toThrow(withCode('unsupported_format'));
});

test('a column with changed storage is another format', () => {
  sql("UPDATE column_name SET storage = 'u8' WHERE name = 'pid'");
  expect(() => openReader(path)).toThrow(withCode('unsupported_format'));
});

test('a file without a column that this version knows is readable', () => {
  sql("UPDATE column_name SET name = 'gone' WHERE name = 'pid'");
  const reader = openReader(path);
  const [block] = [...reader.scan({ columns: ['pid'], limit: 5 })];
  expect(Array.from(block!.columns.get('pid')!, Number)).toEqual([0, 0, 0, 0, 0]);
  reader.close();
});

test('a folder that does not exist or is not writable', () => {
  expect(() => testWriter('/proc/no/recording.kreplay')).toThrow(withCode('recording_not_writable'));
  const closed = join(folder.path, 'closed');
  mkdirSync(closed);
  chmodSync(closed, 0o555);
  chmodSync(folder.path, 0o755);
  const script = `import { openWriter } from '${join(import.meta.dirname, '../../../../agent/recording/write/writer.ts')}';
    try { openWriter({ path: '${closed}/recording.kreplay', node: '', bootId: '', machineId: '', nowNs: () => 0n }); }
    catch (error) { console.log(error.code); }`;
  const [command, ...args] = [...AS_NOBODY, process.execPath, '--input-type=module', '-e', script] as const;
  const output = execFileSync(command, args, { encoding: 'utf8' });
  expect(output).toBe('recording_not_writable\n');
});

/** Leaves the file in the midst of a change that needs a journal, as a loss of power does. */
function interruptChange(): void {
  const script = `
    import Database from 'better-sqlite3';
    const database = new Database('${path}');
    database.pragma('journal_mode = DELETE');
    database.pragma('cache_size = 1');
    database.exec('BEGIN; UPDATE loss SET count = 1; CREATE TABLE more (a)');
    for (let i = 0; i < 100; i++) database.exec('INSERT INTO more VALUES (zeroblob(900))');
    process.kill(process.pid, 'SIGKILL');`;
  const cwd = join(import.meta.dirname, '../../../..');
  spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd });
  expect(existsSync(`${path}-journal`)).toBe(true);
}

test('a change that was interrupted is undone by the next writer, and until then readers say so', () => {
  interruptChange();
  expect(() => openReader(path)).toThrow(/-journal is left: start the agent/);
  expect(() => openReader(path)).toThrow(withCode('recording_not_readable'));
  testWriter(path).close();
  expect(openReader(path).info().eventCount).toBe(ROWS);
});

test('the log of a file that was not closed needs a folder that the user may write to, and readers say so', () => {
  const writer = testWriter(good);
  writer.recordLoss({ cause: 'ring_full', eventType: null, count: 1, fromNs: START_NS, toNs: START_NS });
  writer.flush();
  const closed = join(folder.path, 'log');
  mkdirSync(closed);
  for (const end of ['', '-wal']) copyFileSync(good + end, join(closed, `recording.kreplay${end}`));
  writer.close();
  const script = `import { openReader } from '${join(import.meta.dirname, '../../../../agent/recording/read/reader.ts')}';
    try { openReader('${closed}/recording.kreplay'); } catch (error) { console.log(error.code, error.message); }`;
  const [command, ...args] = [...AS_NOBODY, process.execPath, '--input-type=module', '-e', script] as const;
  const output = execFileSync(command, args, { encoding: 'utf8' });
  expect(output).toMatch(/^recording_not_readable .* was not closed.*start the agent/);
});

const ROWS = 2100;
const CODED = { code: expect.stringMatching(/^(recording_|not_a_|unsupported_)/) };

/** Reads everything in every way: all rows must be correct, and all missing ones must be reported. */
function readEverything(): void {
  const reader = openReader(path);
  try {
    reader.info();
    for (const order of ['asc', 'desc'] as const) expectTruth([...reader.scan({ order })], reader.losses());
    for (const block of reader.scan({ filter: { transactionId: 'tx-3', services: ['shop'] } })) void block;
    reader.listTransactions({ limit: 100 });
    while (!reader.transactionIndex.step());
    reader.event(5n);
  } finally {
    reader.close();
  }
}

function expectTruth(blocks: readonly NumberedBlock[], losses: readonly Loss[]): void {
  const rows = blocks.flatMap(rowsOf);
  const untrue = rows.filter((row) => {
    const { pid, timestamp_ns, event_type } = original(Number(row.number));
    return row.pid !== pid || row.timestamp_ns !== timestamp_ns || row.event_type !== event_type;
  });
  expect(untrue).toEqual([]);
  const lost = losses.reduce((sum, { count }) => sum + count, 0);
  // An unreadable entry does not reveal how many events it had.
  const unknown = losses.some(({ cause, count }) => cause === 'damaged' && count === 0);
  if (!unknown) expect(rows.length + lost).toBeGreaterThanOrEqual(ROWS);
  expect(new Set(rows.map(({ number }) => number)).size).toBe(rows.length);
}

function original(number: number) {
  const row = number % 700;
  return { pid: row, timestamp_ns: START_NS + BigInt(row * 977), event_type: row % 5 === 0 ? 'block_io' : 'sys_write' };
}

/** Returns whether the file could be read at all. */
function tryReading(): boolean {
  try {
    readEverything();
    return true;
  } catch (error) {
    if ((error as { matcherResult?: unknown }).matcherResult) throw error;
    expect(error).toMatchObject(CODED);
    return false;
  }
}

test('a truncated file returns what is left and reports what is missing, or fails with a code', () => {
  const size = readFileSync(good).length;
  for (const part of [0.03, 0.2, 0.5, 0.9, 0.99]) {
    copyFileSync(good, path);
    truncateSync(path, Math.floor(size * part));
    tryReading();
  }
});

test('with damage anywhere, returned data is correct and missing data is reported, or there is an error with a code', () => {
  const bytes = readFileSync(good);
  let readable = 0;
  fc.assert(
    // Damage near the beginning, which is otherwise drawn more often, makes every file unreadable.
    fc.property(fc.noBias(fc.nat(bytes.length - 1)), fc.integer({ min: 1, max: 255 }), (at, bit) => {
      const damaged = Buffer.from(bytes);
      for (let i = at; i < Math.min(at + 16, damaged.length); i++) damaged[i]! ^= bit;
      writeFileSync(path, damaged);
      if (tryReading()) readable++;
    }),
    { numRuns: times(100) },
  );
  expect(readable).toBeGreaterThan(times(100) / 20);
});
