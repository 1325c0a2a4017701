/**
 * Tests changes to a recording while it is open for reading: readers are in a process of their own, so that a crash is
 * seen.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openReader } from '../../../agent/recording/read/reader.ts';
import type { RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { times } from '../../repeats.ts';
import { blockOf, numbersOf, type Row, START_NS, temporaryFolder, testWriter } from './fixture.ts';

const folder = temporaryFolder();
/** The recording of a case, and another one. */
let path: string;
let other: string;
afterAll(() => folder.remove());

const ROWS = 20_000;
const REPLACED_ROWS = 30;
const CREATED = times(25);
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
 * Reads the files that are named on standard input. Each is scanned three times; the second scan stops after a block
 * until a line comes. Prints the outcome as JSON.
 */
const READER = `
import { createInterface } from 'node:readline';
import { openReader } from '${join(import.meta.dirname, '../../../agent/recording/read/reader.ts')}';
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
for (let named = await lines.next(); !named.done; named = await lines.next()) {
  const outcome = { rows: [], untrue: 0, code: null };
  let reader;
  try {
    reader = openReader(named.value);
    for (let time = 0; time < 3; time++) {
      let rows = 0;
      for (const block of reader.scan({ blockRowsMax: 1000 })) {
        const [pids, times] = ['pid', 'timestamp_ns'].map((name) => block.columns.get(name));
        for (let row = 0; row < block.rowCount; row++) {
          if (times[row] !== ${START_NS}n + BigInt(pids[row])) outcome.untrue++;
        }
        if (time === 1 && rows === 0) {
          process.stdout.write('reading\\n');
          await lines.next();
        }
        rows += block.rowCount;
      }
      outcome.rows.push(rows);
    }
  } catch (error) {
    outcome.code = error.code ?? error.stack;
  }
  try {
    reader?.close();
  } catch (error) {
    outcome.code ??= error.code ?? error.stack;
  }
  console.log(JSON.stringify(outcome));
}`;

interface Outcome {
  /** Rows of each scan: the file changes during the second. */
  rows: number[];
  untrue: number;
  code: string | null;
}

interface Readers {
  child: ChildProcessByStdio<Writable, Readable, null>;
  ended: Promise<unknown[]>;
}

/** The process that reads; a test whose reader crashes leaves none to the next one. */
let readers: Readers | undefined;
afterAll(async () => {
  readers?.child.stdin.end();
  if (readers) expect(await readers.ended).toEqual([0, null]);
});

function newReaders(): Readers {
  const child = spawn(process.execPath, ['--input-type=module', '-e', READER], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8');
  child.stdin.on('error', () => {});
  const begun: Readers = { child, ended: once(child, 'close') };
  void begun.ended.then(() => {
    if (readers === begun) readers = undefined;
  });
  return begun;
}

/** Resolves with what the process says next, or with how it ended. */
async function said({ child, ended }: Readers): Promise<string> {
  return String(await Promise.race([once(child.stdout, 'data'), ended.then((how) => `ended by ${how}`)]));
}

async function readWhile(change: () => void): Promise<Outcome> {
  readers ??= newReaders();
  const { child } = readers;
  const hung = setTimeout(() => child.kill('SIGKILL'), READ_MS_MAX);
  try {
    child.stdin.write(`${path}\n`);
    expect(await said(readers)).toBe('reading\n');
    change();
    child.stdin.write('\n');
    const outcome = await said(readers);
    expect(outcome).toMatch(/^{/);
    return JSON.parse(outcome) as Outcome;
  } finally {
    clearTimeout(hung);
  }
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

const ENDS = ['', '-wal', '-shm'];

/** The files of a recording as a writer leaves them: those of a killed writer have a log. */
const left: Record<string, ReadonlyMap<string, Buffer>> = {};
const filesOf = (file: string) =>
  new Map(ENDS.filter((end) => existsSync(file + end)).map((end) => [end, readFileSync(file + end)]));
beforeAll(() => {
  const file = join(folder.path, 'made.kreplay');
  let writer = testWriter(file);
  append(writer, ROWS / 2);
  writer.close();
  writer = testWriter(file);
  append(writer, ROWS / 2, ROWS / 2);
  left.killed = filesOf(file);
  writer.close();
  left.closed = filesOf(file);
  const small = join(folder.path, 'small.kreplay');
  writer = testWriter(small);
  append(writer, REPLACED_ROWS);
  writer.close();
  left.other = filesOf(small);
});

/** No writer runs meanwhile: writers are kept apart by the lock, which these changes do not respect. */
describe.each(['closed', 'killed'])('a recording that was %s', (state) => {
  const changes = Object.keys(CHANGES).filter((name) => state === 'killed' || !name.includes('log'));
  test.each(changes)('%s under a reader', async (name) => {
    const own = join(folder.path, `${state} ${name}`);
    mkdirSync(own);
    [path, other] = [join(own, 'recording.kreplay'), join(own, 'other.kreplay')];
    for (const [end, bytes] of left[state]!) writeFileSync(path + end, bytes);
    for (const [end, bytes] of left.other!) writeFileSync(other + end, bytes);
    const outcome = await readWhile(CHANGES[name]!);
    expect(outcome.rows[0]).toBe(ROWS);
    expect(outcome.untrue).toBe(0);
    if (outcome.code !== null) expect(outcome.code).toMatch(CODE);
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
  expect([...seen].filter((outcome) => !YOUNG.has(outcome))).toEqual([]);
  expect(seen).toContain(0);
});
