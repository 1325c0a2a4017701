/**
 * Tests recordings whose checksums are right and whose values are not: what cannot be an event is a loss of its segment,
 * and all else arrives.
 */
import { cpSync } from 'node:fs';
import { crc32, zstdDecompressSync } from 'node:zlib';
import { openDatabase } from '../../agent/recording/format/database.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { newFolder, type Row, recordingPath } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { emptyFleet, expectSame, startFleet } from './fleet.ts';
import { shipHere } from './here.ts';
import { loadRows, randomNumbers, recordedInSegments } from './load.ts';
import { eventsOf, textOf } from './plain_events.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await emptyFleet(server);
});
afterAll(endServers);

/** So few that a recording keeps their columns apart. */
const SEGMENT_EVENTS = 1024;
const SEGMENTS = 5;
const random = randomNumbers(5);
const below = (end: number) => Math.floor(random() * end);

const recorded = (rows: readonly Row[]) => recordedInSegments(rows, SEGMENT_EVENTS);

/** Changes a recording as its own writer would, so that all pages match their checksums. */
function change(folder: string, work: (database: ReturnType<typeof openDatabase>) => void): void {
  const database = openDatabase(recordingPath(folder), {});
  work(database);
  database.close();
}

/** Expects that each event either arrived or is counted as damaged; returns how many are. */
async function expectCounted(rows: readonly Row[]): Promise<number> {
  const { events } = await arrivedAt(server);
  const { damaged = 0, ...others } = await lossesAt(server);
  expect(others).toEqual({});
  expect(events.size + damaged).toBe(rows.length);
  expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment FINAL')).toBe(events.size);
  return damaged;
}

/** Events of the third segment alone have the transaction whose entry is changed. */
const rowsWithOne = () =>
  loadRows(SEGMENTS * SEGMENT_EVENTS).map((row, i) =>
    i === 2 * SEGMENT_EVENTS + 7 ? { ...row, transaction: 'one', trace: 'f'.repeat(32), span: 'e'.repeat(16) } : row,
  );

describe('an entry that is no value of its column', () => {
  test.each([
    ['a trace id that is too long', `trace_id = trace_id || '00'`],
    ['a trace id that is too short', `trace_id = substr(trace_id, 2)`],
    ['a trace id of other characters', `trace_id = replace(trace_id, 'ff', 'fg')`],
    ['a span id that is too long', `span_id = span_id || span_id`],
    ['a span id of other characters', `span_id = 'span'`],
    ['a transaction id that is too long', `transaction_id = printf('%.70000c', 'x')`],
  ])('%s loses its segment only', async (_, set) => {
    const rows = rowsWithOne();
    const folder = recorded(rows);
    change(folder, (database) => database.exec(`UPDATE context SET ${set} WHERE transaction_id = 'one'`));
    expect((await shipHere(folder, server.url)).log).not.toContain('TypeError');
    expect(await expectCounted(rows)).toBe(SEGMENT_EVENTS);
    const { events } = await arrivedAt(server);
    const made = eventsOf(rows).filter(({ number }) => Math.floor(number / SEGMENT_EVENTS) !== 2);
    expectSame(events, new Map(made.map((event) => [event.number, textOf(event)])));
  });

  test('loses no more when the events of a group are of more hours than one insert may have', async () => {
    const HOUR_NS = 3_600_000_000_000n;
    const hoursOf = (i: number) => BigInt(Math.floor(i / SEGMENT_EVENTS) === 2 ? i % 100 : 0);
    const rows = rowsWithOne().map((row, i) => ({ ...row, at: row.at + hoursOf(i) * HOUR_NS }));
    const folder = recorded(rows);
    change(folder, (database) => database.exec(`UPDATE context SET trace_id = 'f' WHERE transaction_id = 'one'`));
    await shipHere(folder, server.url);
    // Parts of the segment without the entry may have arrived.
    expect(await expectCounted(rows)).toBeGreaterThan(0);
  });
});

const [HEAD_BYTES, GROUP_BYTES] = [8, 12];

/** Changes some bytes of the columns in a blob, which are behind their compression, and makes its checksum right. */
function withFlips(data: Buffer, seed: number, flips: number): Buffer {
  const groups = data.readUInt16LE(6);
  const heads = Buffer.from(data.subarray(HEAD_BYTES, HEAD_BYTES + groups * GROUP_BYTES));
  const bodies: Buffer[] = [];
  let from = HEAD_BYTES + heads.length;
  for (let head = 0; head < heads.length; head += GROUP_BYTES) {
    const stored = data.subarray(from, from + heads.readUInt32LE(head + 4));
    from += stored.length;
    const body = Buffer.from(heads.readUInt32LE(head + 8) === 0 ? stored : zstdDecompressSync(stored));
    heads.writeUInt32LE(body.length, head + 4);
    heads.writeUInt32LE(0, head + 8);
    bodies.push(body);
  }
  const changed = Buffer.concat([data.subarray(0, HEAD_BYTES), heads, ...bodies]);
  for (let flip = 0; flip < flips; flip++) {
    const at =
      random() < 0.1 ? 4 + below(HEAD_BYTES + heads.length - 4) : HEAD_BYTES + below(changed.length - HEAD_BYTES);
    changed[at]! ^= 1 + below(255);
  }
  changed.writeUInt32LE(crc32(changed.subarray(4), seed), 0);
  return changed;
}

/** Flips bytes in some blobs of a recording. */
function flipIn(folder: string, blobs: number): void {
  change(folder, (database) => {
    const pieces = database
      .prepare<[number], { key: number; data: Buffer }>(
        'SELECT piece_key AS key, data FROM segment_piece ORDER BY random() LIMIT ?',
      )
      .all(blobs);
    const set = database.prepare('UPDATE segment_piece SET data = ? WHERE piece_key = ?');
    for (const { key, data } of pieces) {
      const [first, piece] = [Math.floor(key / 256), key % 256];
      set.run(withFlips(data, (first % 2 ** 24) * 256 + piece, 1 + below(3)), key);
    }
  });
}

const ROUNDS = times(5);

describe('bytes that were changed before their checksum was made', () => {
  test('end no shipper, and each event arrives or is counted', async () => {
    const rows = loadRows(3 * SEGMENT_EVENTS);
    const whole = recorded(rows);
    let damaged = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const folder = newFolder();
      cpSync(recordingPath(whole), recordingPath(folder));
      flipIn(folder, 6);
      await shipHere(folder, server.url).catch((error) => {
        throw new Error(`round ${round}`, { cause: error });
      });
      damaged += await expectCounted(rows);
      const { events, plain } = await arrivedAt(server);
      expect(events.size).toBe(plain.length);
      // What is found by its number is looked for between the times of its segment.
      const found = `SELECT count() FROM (SELECT DISTINCT number FROM kreplay.event) ANY INNER JOIN (
        SELECT DISTINCT number FROM kreplay.event CROSS JOIN kreplay.segment
        WHERE number >= first_number AND number < end_number AND timestamp_ns >= t_min AND timestamp_ns <= t_max
      ) USING number`;
      expect(await countAt(server, found)).toBe(events.size);
      expect(await countAt(server, `SELECT count() FROM kreplay.event WHERE event_type = ''`)).toBe(0);
      expect(await countAt(server, 'SELECT sum(n) FROM kreplay.stat FINAL')).toBe(events.size);
      await emptyFleet(server);
    }
    expect(damaged).toBeGreaterThan(0);
  }, 120_000);
});
