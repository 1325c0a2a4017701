/** Tests what never arrives: events at the centre and losses there add up to the events that were recorded. */
import { cpSync, existsSync, renameSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { appendRows, newFolder, type Row, recorded, recordingPath } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { emptyFleet, endShippers, expectAll, expectSame, forgetPosition, startFleet } from './fleet.ts';
import { shipHere, startHere } from './here.ts';
import { liveWriter, loadRows, noisyRows, randomNumbers, recordedInSegments } from './load.ts';
import { eventsOf, textOf } from './plain_events.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await endShippers();
  await emptyFleet(server);
});
afterAll(endServers);

const OUTAGES = times(1);
const GROUP_EVENTS = 1000;
/** Room for some thousand events. */
const RETAIN_BYTES = 3 << 16;
const random = randomNumbers(7);

function append(writer: RecordingWriter, rows: Row[], count: number): void {
  const more = noisyRows(count, rows.length, random);
  appendRows(writer, more);
  for (const row of more) rows.push(row);
}

/** Expects that what arrived is right, and that all else is a loss with this cause. */
async function expectSum(rows: readonly Row[], cause: string): Promise<number> {
  const { events } = await arrivedAt(server);
  const made = eventsOf(rows).filter(({ number }) => events.has(number));
  expectSame(events, new Map(made.map((event) => [event.number, textOf(event)])));
  const { [cause]: lost = 0, ...others } = await lossesAt(server);
  expect(others).toEqual({});
  expect(events.size + lost).toBe(rows.length);
  return lost;
}

describe('retention on the node', () => {
  test('before anything is shipped is a loss of exactly what it removed', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    append(writer, rows, 24_000);
    writer.close();
    await shipHere(folder, server.url);
    expect(await expectSum(rows, 'unshipped')).toBeGreaterThan(4096);
  });

  test('while the server is away is a loss of what it removed, and no more', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    append(writer, rows, 2_000);
    await shipHere(folder, server.url);
    const service = startHere(folder, server.url, { eventsMax: GROUP_EVENTS });
    for (let away = 0; away < OUTAGES; away++) {
      append(writer, rows, 3_000);
      await sleep(random() * 1000);
      await server.kill();
      // More than the recording holds, whatever has arrived until then.
      append(writer, rows, 24_000);
      await server.restart();
      await sleep(300);
    }
    await service.end();
    writer.close();
    await shipHere(folder, server.url);
    expect(await expectSum(rows, 'unshipped')).toBeGreaterThan(4096);
  });

  test('of what was shipped is no loss, also when it is sent again', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    for (let i = 0; i < 5; i++) {
      append(writer, rows, 2_500);
      await shipHere(folder, server.url);
    }
    writer.close();
    await server.kill();
    await server.restart();
    await shipHere(folder, server.url);
    expect(await expectSum(rows, 'unshipped')).toBe(0);
    forgetPosition(folder);
    await shipHere(folder, server.url, { claims: true });
    expect(await expectSum(rows, 'unshipped')).toBe(0);
  });
});

test('events that were shipped, and that a loss of power took from the node, stay what they are', async () => {
  const [folder, disk] = [newFolder(), newFolder()];
  const rows = loadRows(3300);
  const writer = liveWriter(folder);
  appendRows(writer, rows.slice(0, 2000));
  for (const end of ['', '-wal']) cpSync(recordingPath(folder) + end, recordingPath(disk) + end);
  appendRows(writer, rows.slice(2000, 2600));
  writer.close();
  await shipHere(folder, server.url);
  for (const end of ['', '-wal']) cpSync(recordingPath(disk) + end, recordingPath(folder) + end);
  const next = liveWriter(folder, 1 << 30, 'next boot');
  appendRows(next, rows.slice(2600));
  next.close();
  await shipHere(folder, server.url);
  const { events } = await arrivedAt(server);
  const numberNow = (number: number) => (number < 2600 ? number : 2 ** 32 + number - 2600);
  const made = eventsOf(rows).map((event) => ({ ...event, number: numberNow(event.number) }));
  expectSame(events, new Map(made.map((event) => [event.number, textOf(event)])));
  expect((await lossesAt(server)).unshipped ?? 0).toBe(0);
  expect(await countAt(server, 'SELECT max(backlog) FROM kreplay.node')).toBeLessThan(5000);
});

/** So few that a recording keeps their columns apart. */
const SEGMENT_EVENTS = 1024;

/** Changes a byte of the stored columns of these segments, whichever table has them. */
function damage(folder: string, segments: readonly number[]): void {
  const database = new Database(recordingPath(folder));
  const firsts = database.prepare<[], number>('SELECT first_number FROM segment ORDER BY first_number').pluck().all();
  for (const segment of segments) {
    const first = firsts[segment]!;
    const changed = "SET data = CAST('x' || substr(data, 2) AS BLOB)";
    database.exec(`UPDATE segment ${changed} WHERE first_number = ${first} AND data <> x''`);
    database.exec(
      `UPDATE segment_piece ${changed} WHERE piece_key >= ${first * 256} AND piece_key < ${first * 256 + 256}`,
    );
  }
  database.close();
}

describe('a recording that is damaged', () => {
  test.each([
    ['in the middle', [1, 3]],
    ['at its beginning and end', [0, 4]],
    ['everywhere', [0, 1, 2, 3, 4]],
  ])('%s has losses of exactly the events that cannot be read', async (_, segments) => {
    const rows = loadRows(5 * SEGMENT_EVENTS);
    const folder = recordedInSegments(rows, SEGMENT_EVENTS);
    damage(folder, segments);
    await shipHere(folder, server.url, { eventsMax: 2 * SEGMENT_EVENTS });
    expect(await expectSum(rows, 'damaged')).toBe(segments.length * SEGMENT_EVENTS);
    expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment')).toBe((5 - segments.length) * SEGMENT_EVENTS);
  });
});

describe('a recording that is replaced', () => {
  test('while it is shipped is shipped to its end, and then the other one', async () => {
    const [folder, other] = [newFolder(), newFolder()];
    const [rows, later] = [loadRows(6000), loadRows(600)];
    const writer = liveWriter(folder);
    appendRows(writer, rows);
    const service = startHere(folder, server.url, { eventsMax: 400 });
    while ((await countAt(server, 'SELECT count() FROM kreplay.segment')) === 0) await sleep(1);
    writer.close();
    for (const end of ['', '-wal', '-shm'])
      if (existsSync(recordingPath(folder) + end))
        renameSync(recordingPath(folder) + end, `${recordingPath(folder)}.old${end}`);
    const next = liveWriter(other);
    appendRows(next, later);
    next.close();
    cpSync(recordingPath(other), recordingPath(folder));
    while ((await countAt(server, 'SELECT uniq(recording) FROM kreplay.segment')) < 2) await sleep(50);
    await service.end();
    const rowsThere = await countAt(
      server,
      'SELECT count() FROM (SELECT DISTINCT recording, number FROM kreplay.event)',
    );
    const lost = (await lossesAt(server)).unshipped ?? 0;
    expect(rowsThere + lost).toBe(rows.length + later.length);
  });

  test('by one that another machine ships is refused until it is claimed', async () => {
    const rows = loadRows(600);
    const folder = recorded(rows);
    await shipHere(folder, server.url);
    const copy = newFolder();
    cpSync(recordingPath(folder), recordingPath(copy));
    const count = await countAt(server, 'SELECT count() FROM kreplay.event');
    const isRefused = /another process.*--claim/;
    await expect(shipHere(copy, server.url)).rejects.toThrow(isRefused);
    expect(await countAt(server, 'SELECT count() FROM kreplay.event')).toBe(count);
    await shipHere(copy, server.url, { claims: true });
    await expect(shipHere(folder, server.url)).rejects.toThrow(isRefused);
    await expectAll(server, rows);
  });
});
