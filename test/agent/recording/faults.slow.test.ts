/**
 * Tests changes to a recording while it is open for reading: each reader is a separate process, so that a crash is
 * seen.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openReader } from '../../../agent/recording/read/reader.ts';
import type { RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { blockOf, numbersOf, type Row, START_NS, temporaryFolder, testWriter } from './fixture.ts';

const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');
const other = join(folder.path, 'other.kreplay');
afterAll(() => folder.remove());

const ROWS = 20_000;
const REPLACED_ROWS = 30;
const CREATED = 100;
/** Possible results for a reader of a new recording: a number of events, or the code of its failure. */
const YOUNG: ReadonlySet<unknown> = new Set([0, 'recording_missing', 'recording_busy', 'recording_not_readable']);
const READ_MS_MAX = 10_000;

function append(writer: RecordingWriter, count: number, from = 0): void {
  const rows = Array.from(
    { length: count },
    (_, i): Row => ({ timestamp_ns: START_NS + BigInt(from + i), pid: from + i }),
  );
  writer.append(blockOf(rows));
  writer.flush();
}

/**
 * Scans three times; the second scan stops after a block until a line comes on standard input. Prints the outcome as
 * JSON.
 */
const READER = `
import { openReader } from '${join(import.meta.dirname, '../../../agent/recording/read/reader.ts')}';
const outcome = { rows: [], untrue: 0, code: null };
try {
  const reader = openReader('${path}');
  for (let time = 0; time < 3; time++) {
    let rows = 0;
    for (const block of reader.scan({ blockRowsMax: 1000 })) {
      const [pids, times] = ['pid', 'timestamp_ns'].map((name) => block.columns.get(name));
      for (let row = 0; row < block.rowCount; row++) {
        if (times[row] !== ${START_NS}n + BigInt(pids[row])) outcome.untrue++;
      }
      if (time === 1 && rows === 0) {
        process.stdout.write('reading\\n');
        await new Promise((resolve) => process.stdin.once('data', resolve));
        process.stdin.destroy();
      }
      rows += block.rowCount;
    }
    outcome.rows.push(rows);
  }
} catch (error) {
  outcome.code = error.code ?? error.stack;
}
console.log(JSON.stringify(outcome));`;

interface Outcome {
  /** Rows of each scan: the file changes during the second. */
  rows: number[];
  untrue: number;
  code: string | null;
}

async function readWhile(change: () => void): Promise<{ ended: unknown[]; outcome: Outcome }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', READER], {
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: READ_MS_MAX,
  });
  const ended = once(child, 'close');
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await once(child.stdout, 'data');
  change();
  child.stdin.write('\n');
  const end = await ended;
  return { ended: end, outcome: JSON.parse(output.split('\n')[1] || '{}') as Outcome };
}

const CODE = /^(recording_|not_a_|unsupported_)/;
const size = () => readFileSync(path).length;

const CHANGES: Record<string, () => void> = {
  'cut to half': () => truncateSync(path, size() / 2),
  'cut to a page': () => truncateSync(path, 512),
  emptied: () => truncateSync(path, 0),
  removed: () => rmSync(path),
  replaced: () => renameSync(other, path),
  'overwritten by another': () => copyFileSync(other, path),
  'overwritten by a text': () => writeFileSync(path, 'this is no recording '.repeat(10_000)),
  'without the contents of its log': () => truncateSync(`${path}-wal`, 0),
  'without the end of its log': () => truncateSync(`${path}-wal`, readFileSync(`${path}-wal`).length / 2),
  'without the names of its log': () => ['-wal', '-shm'].map((end) => rmSync(path + end)),
};

/** No writer runs meanwhile: writers are kept apart by the lock, which these changes do not respect. */
describe.each(['closed', 'killed'])('a recording that was %s', (state) => {
  beforeEach(() => {
    for (const file of [path, other].flatMap((one) => ['', '-wal', '-shm'].map((end) => one + end)))
      rmSync(file, { force: true });
    let writer = testWriter(other);
    append(writer, REPLACED_ROWS);
    writer.close();
    writer = testWriter(path);
    append(writer, ROWS / 2);
    writer.close();
    writer = testWriter(path);
    append(writer, ROWS / 2, ROWS / 2);
    if (state === 'closed') return writer.close();
    const saved = ['', '-wal', '-shm'].map((end) => [path + end, readFileSync(path + end)] as const);
    writer.close();
    for (const [file, bytes] of saved) writeFileSync(file, bytes);
  });

  const changes = Object.keys(CHANGES).filter((name) => state === 'killed' || !name.includes('log'));
  test.each(changes)('%s under a reader', async (name) => {
    const { ended, outcome } = await readWhile(CHANGES[name]!);
    expect(ended).toEqual([0, null]);
    expect(outcome.rows[0]).toBe(ROWS);
    expect(outcome.untrue).toBe(0);
    if (outcome.code !== null) expect(outcome.code).toMatch(CODE);
    if (process.env.FAULTS) process.stderr.write(`${state} ${name} ${JSON.stringify(outcome)}\n`);
  });
});

test('a recording whose next number was lost has all its events, and new ones get other numbers', () => {
  const file = join(folder.path, 'numbers.kreplay');
  const writer = testWriter(file);
  append(writer, 100);
  writer.close();
  const database = new Database(file);
  database.exec("UPDATE meta SET key = 'nfxt_number' WHERE key = 'next_number'");
  database.close();
  const next = testWriter(file);
  append(next, 100, 100);
  next.close();
  const reader = openReader(file);
  expect(numbersOf(reader.scan({}))).toEqual(Array.from({ length: 200 }, (_, number) => number));
  reader.close();
});

test('a file that is being created has no events or does not exist yet, and is never anything else', async () => {
  const script = `
    import { openWriter } from '${join(import.meta.dirname, '../../../agent/recording/write/writer.ts')}';
    for (let i = 0; i < ${CREATED}; i++) {
      const path = '${folder.path}/created-' + i;
      openWriter({ path, node: '', bootId: '', machineId: '', nowNs: () => 0n }).close();
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' });
  const ended = once(child, 'close');
  const seen = new Set<unknown>();
  for (let created = 0; created < CREATED && child.exitCode === null; ) {
    try {
      const reader = openReader(join(folder.path, `created-${created}`));
      seen.add(reader.info().eventCount);
      reader.close();
      created++;
    } catch (error) {
      seen.add((error as { code?: unknown }).code);
    }
    await setImmediate();
  }
  expect(await ended).toEqual([0, null]);
  if (process.env.FAULTS) process.stderr.write(`${[...seen]}\n`);
  expect([...seen].filter((outcome) => !YOUNG.has(outcome))).toEqual([]);
  expect(seen).toContain(0);
});
