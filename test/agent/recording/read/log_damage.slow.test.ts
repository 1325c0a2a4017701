/** Tests the write-ahead log of a recording whose agent was killed: a truncated end is not damage, anything else is. */
import { copyFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../../../../agent/recording/format/database.ts';
import { PAGE_BYTES } from '../../../../agent/recording/format/schema.ts';
import { openReader, type RecordingReader } from '../../../../agent/recording/read/reader.ts';
import { isWhole, verifyRecording } from '../../../../agent/recording/read/verify.ts';
import { openWriter } from '../../../../agent/recording/write/writer.ts';
import { appendRows, newFolder, newWriter, recorded, recordingPath, START } from '../../../daemon/recorded.ts';
import { times } from '../../../repeats.ts';

/** Step between the tested frames; the last frame is always among them. */
const FRAMES_A_STEP = Math.max(1, Math.round(15 / times(1)));
const HEADER_BYTES = 32;
const FRAME_BYTES = 24 + PAGE_BYTES;
const BATCHES = 12;
const EVENTS = 1 + BATCHES * 40;

let killed: string;

/** Makes a recording as a killed writer leaves it: every batch is a commit in the log. */
beforeAll(() => {
  const folder = recorded([{ at: START }]);
  const writer = newWriter(folder);
  for (let batch = 0; batch < BATCHES; batch++) {
    const at = (i: number) => START + BigInt(batch * 100 + i);
    appendRows(
      writer,
      Array.from({ length: 40 }, (_, i) => ({ at: at(i), transaction: `order-${batch}`, file: `/f/${batch}-${i}` })),
    );
  }
  killed = newFolder();
  copy(recordingPath(folder), recordingPath(killed));
  writer.close();
});

function copy(from: string, to: string): void {
  for (const end of ['', '-wal']) copyFileSync(from + end, to + end);
}

function damagedCopy(damage: (log: Buffer) => Buffer): string {
  const path = join(newFolder(), 'recording.kreplay');
  copy(recordingPath(killed), path);
  writeFileSync(`${path}-wal`, damage(readFileSync(`${path}-wal`)));
  return path;
}

interface Found {
  events: number;
  damaged: boolean;
  told: boolean;
  whole: boolean;
}

/** A recording that is refused as damaged also counts as reported. */
function found(path: string): Found {
  let reader: RecordingReader;
  try {
    reader = openReader(path);
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'recording_corrupt') throw error;
    return { events: 0, damaged: true, told: true, whole: false };
  }
  try {
    let events = 0;
    for (const block of reader.scan({})) events += block.rowCount;
    const told = reader.losses().some(({ cause }) => cause === 'damaged');
    return { events, damaged: reader.foundDamage().any, told, whole: isWhole(verifyRecording(path)) };
  } finally {
    reader.close();
  }
}

const frames = () => Math.floor((statSync(`${recordingPath(killed)}-wal`).size - HEADER_BYTES) / FRAME_BYTES);

/** Indices of the frames that end a commit. */
function commits(): number[] {
  const log = readFileSync(`${recordingPath(killed)}-wal`);
  const isCommit = (frame: number) => log.readUInt32BE(HEADER_BYTES + frame * FRAME_BYTES + 4) !== 0;
  return Array.from({ length: frames() }, (_, i) => i).filter(isCommit);
}

test('a recording whose writer was killed is complete', () => {
  const all = { events: EVENTS, damaged: false, told: false, whole: true };
  expect(found(damagedCopy((log) => log))).toEqual(all);
});

test.each<[string, (log: Buffer, lastStart: number) => Buffer]>([
  ['within a frame', (log, lastStart) => log.subarray(0, lastStart + FRAME_BYTES + 500)],
  ['without its last commit', (log, lastStart) => log.subarray(0, lastStart + FRAME_BYTES)],
])('the last commit is missing if the log ends %s, which is not damage', (_name, cut) => {
  const ends = commits();
  const lastStart = HEADER_BYTES + (ends.at(-2)! + 1) * FRAME_BYTES;
  const { events, damaged, whole } = found(damagedCopy((log) => cut(log, lastStart)));
  expect({ damaged, whole }).toEqual({ damaged: false, whole: true });
  expect(events).toBeLessThan(EVENTS);
});

const FLIPS: readonly [name: string, offset: number][] = [
  ['page number', 0],
  ['salts', 9],
  ['page', 24],
  ['page', 24 + 700],
  ['size of the database', 5],
  ['checksum', 16],
];

test.each(FLIPS)('a flipped bit in the %s of any frame (byte %d) is reported', (name, offset) => {
  // A killed writer leaves a last commit whose checksum does not match its frames, so that is not damage.
  const end = ['checksum', 'size of the database'].includes(name) ? commits().at(-2)! : frames();
  for (let frame = (end - 1) % FRAMES_A_STEP; frame < end; frame += FRAMES_A_STEP) {
    const path = damagedCopy((log) => {
      log[HEADER_BYTES + frame * FRAME_BYTES + offset]! ^= 1;
      return log;
    });
    const { damaged, told, whole } = found(path);
    expect({ frame, damaged, told, whole }).toEqual({ frame, damaged: true, told: true, whole: false });
  }
});

test.each([0, 5, 20, 30])('a flipped bit in byte %d of the header of the log is reported', (offset) => {
  // The tables themselves are in the log, so a checkpoint copies them to the file first.
  const path = damagedCopy((log) => log);
  const database = openDatabase(path, {});
  database.pragma('wal_checkpoint(PASSIVE)');
  const [file, log] = ['', '-wal'].map((end) => readFileSync(path + end));
  database.close();
  log![offset]! ^= 2;
  writeFileSync(path, file!);
  writeFileSync(`${path}-wal`, log!);
  expect(found(path)).toMatchObject({ damaged: true, told: true, whole: false });
});

test('a writer does not continue after unreadable data', () => {
  const path = damagedCopy((log) => {
    log[HEADER_BYTES + 10 * FRAME_BYTES + 100]! ^= 1;
    return log;
  });
  expect(() => newWriter(join(path, '..'))).toThrow(/write-ahead log is damaged/);
});

/** A writer of the node's next start. */
const nextStart = (path: string) => {
  openWriter({ path, node: 'node-1', machineId: 'machine', bootId: 'next', nowNs: () => START + 10n ** 12n }).close();
};

describe('behind a new start of the node', () => {
  const broken = (log: Buffer) => {
    log[HEADER_BYTES + (commits()[6]! + 1) * FRAME_BYTES + 100]! ^= 1;
    return log;
  };

  test('a writer goes on from the last commit that can be read, and the rest is a gap', () => {
    const path = damagedCopy(broken);
    const { events } = found(path);
    nextStart(path);
    expect(found(path)).toEqual({ events, damaged: false, told: false, whole: true });
    const reader = openReader(path);
    const last = [...reader.scan({ order: 'desc', limit: 1 })][0]!.columns.get('timestamp_ns')![0] as bigint;
    const [gap] = reader.losses().filter(({ cause }) => cause === 'agent_killed');
    expect(gap!.fromNs <= last + 100n && gap!.toNs === START + 10n ** 12n).toBe(true);
    reader.close();
  });

  test.each([1, 2, 5])('a writer does not go on if SQLite had copied %d commits more to the file', (more) => {
    const whole = damagedCopy((log) => log.subarray(0, HEADER_BYTES + (commits()[6 + more]! + 1) * FRAME_BYTES));
    const database = openDatabase(whole, {});
    database.pragma('wal_checkpoint(PASSIVE)');
    const file = readFileSync(whole);
    database.close();
    const path = damagedCopy(broken);
    writeFileSync(path, file);
    expect(() => nextStart(path)).toThrow(/write-ahead log is damaged/);
  });
});

test('lost pages at the end of a file are damage, not zeros', () => {
  const path = damagedCopy((log) => log);
  truncateSync(path, statSync(path).size - 8 * PAGE_BYTES);
  expect(found(path)).toMatchObject({ damaged: true, told: true, whole: false });
});

test('an event that refers to something missing is damage', () => {
  for (const table of ['name', 'file', 'context']) {
    const path = damagedCopy((log) => log);
    const database = openDatabase(path, {});
    database.exec(`DELETE FROM ${table} WHERE ${table}_id = (SELECT max(${table}_id) FROM ${table})`);
    database.close();
    expect([table, found(path)]).toEqual([table, expect.objectContaining({ damaged: true, told: true, whole: false })]);
  }
});
