/** Tests that events which a shipper has not shipped do not grow too old, while the size limit takes them as before. */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { openWriter, type RecordingWriter } from '../../../../agent/recording/write/writer.ts';
import { blockOf, numbersOf, START_NS, temporaryFolder } from '../fixture.ts';

const SECOND_NS = 1_000_000_000n;
const ROWS = 4096;

let folder: ReturnType<typeof temporaryFolder>;
let path: string;
let position: string;
let clock: { nowNs: bigint };

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder.path, 'recording.kreplay');
  position = join(folder.path, 'position.json');
  clock = { nowNs: START_NS };
});
afterEach(() => folder.remove());

function open(bytes?: number): RecordingWriter {
  const retention = { ageNs: 20n * SECOND_NS, unshipped: position, ...(bytes && { bytes }) };
  return openWriter({ path, node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs, retention });
}

let noise = 1;

function writeSegments(writer: RecordingWriter, count: number): void {
  for (let i = 0; i < count; i++) {
    const rows = Array.from({ length: ROWS }, (_, row) => {
      noise = Math.imul(noise ^ (noise >>> 15), 0x2c1b3c6d) + 0x297a2d39;
      return { timestamp_ns: clock.nowNs + BigInt(row), pid: noise >>> 0, tid: Math.imul(noise, 0x85ebca6b) >>> 0 };
    });
    writer.append(blockOf(rows));
    clock.nowNs += SECOND_NS;
    writer.flush();
  }
}

function kept(): { first: number; recordingId: string } {
  const reader = openReader(path);
  const [first] = numbersOf(reader.scan({ limit: 1 }));
  const { recordingId } = reader;
  reader.close();
  return { first: first!, recordingId };
}

function setPosition(values: object): void {
  writeFileSync(position, JSON.stringify(values));
}

test('without a position, with one of another recording, or a damaged one, nothing is too old', () => {
  const writer = open();
  writeSegments(writer, 60);
  expect(kept().first).toBe(0);
  setPosition({ recordingId: 'ffffffffffffffff', number: 10 * ROWS });
  writeSegments(writer, 15);
  expect(kept().first).toBe(0);
  writeFileSync(position, '{"recordingId":');
  writeSegments(writer, 15);
  expect(kept().first).toBe(0);
  writer.close();
});

test('what has arrived grows too old, a whole segment at a time, and the rest when it has arrived', () => {
  const writer = open();
  writeSegments(writer, 30);
  const { recordingId } = kept();
  setPosition({ recordingId, number: 3 * ROWS + 1 });
  writeSegments(writer, 15);
  expect(kept().first).toBe(3 * ROWS);
  setPosition({ recordingId, number: 100 * ROWS });
  writeSegments(writer, 15);
  // 60 segments of a second each, of which those of the last 20 seconds remain.
  expect(kept().first).toBeGreaterThanOrEqual(38 * ROWS);
  writer.close();
});

test('the size limit takes what has not arrived', () => {
  const limit = 8 << 20;
  const writer = open(limit);
  writeSegments(writer, 300);
  expect(statSync(path).size).toBeLessThan(limit * 1.05);
  expect(kept().first).toBeGreaterThan(0);
  writer.close();
});
