/** Tests what never arrives: events at the centre and losses there add up to the events that were recorded. */
import { cpSync, existsSync, renameSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { appendRows, newFolder, type Row, recorded, recordingPath } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import {
  emptyFleet,
  endShippers,
  expectAll,
  expectSame,
  forgetPosition,
  shipOnce,
  startFleet,
  startShip,
} from './fleet.ts';
import { liveWriter, loadRows, noisyRows, randomNumbers } from './load.ts';
import { eventsOf, textOf } from './plain_events.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(async () => {
  await endShippers();
  if (isInstalled) await emptyFleet(server);
});
afterAll(endServers);

const OUTAGES = times(2);
const GROUP_EVENTS = 4096;
const RETAIN_BYTES = 3 << 18;
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

withServer('retention on the node', () => {
  test('before anything is shipped is a loss of exactly what it removed', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    append(writer, rows, 60_000);
    writer.close();
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
    expect(await expectSum(rows, 'unshipped')).toBeGreaterThan(4096);
  });

  test('while the server is away is a loss of what it removed, and no more', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    append(writer, rows, 15_000);
    const { ended } = startShip(folder, server.url, '--once');
    await ended;
    const service = startShip(folder, server.url, '--flush', '1s', '--group-events', String(GROUP_EVENTS));
    for (let away = 0; away < OUTAGES; away++) {
      append(writer, rows, 5_000);
      await sleep(300 + random() * 700);
      await server.kill();
      // More than the recording holds, whatever has arrived until then.
      append(writer, rows, 80_000);
      await server.restart();
      await sleep(500);
    }
    service.child.kill('SIGKILL');
    await service.ended;
    writer.close();
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
    expect(await expectSum(rows, 'unshipped')).toBeGreaterThan(10_000);
  });

  test('of what was shipped is no loss, also when it is sent again', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    for (let i = 0; i < 5; i++) {
      append(writer, rows, 10_000);
      expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
    }
    writer.close();
    await server.kill();
    await server.restart();
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
    expect(await expectSum(rows, 'unshipped')).toBe(0);
    forgetPosition(folder);
    expect(await shipOnce(folder, server.url, '--claim')).toMatchObject({ code: 0 });
    expect(await expectSum(rows, 'unshipped')).toBe(0);
  });
});

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

withServer('a recording that is damaged', () => {
  test.each([
    ['in the middle', [1, 3]],
    ['at its beginning and end', [0, 4]],
    ['everywhere', [0, 1, 2, 3, 4]],
  ])('%s has losses of exactly the events that cannot be read', async (_, segments) => {
    const rows = loadRows(5 * 4096);
    const folder = newFolder();
    const writer = liveWriter(folder);
    appendRows(writer, rows, 4096);
    writer.close();
    damage(folder, segments);
    expect(await shipOnce(folder, server.url, '--group-events', '8192')).toMatchObject({ code: 0 });
    expect(await expectSum(rows, 'damaged')).toBe(segments.length * 4096);
    expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment')).toBe((5 - segments.length) * 4096);
  });
});

withServer('a recording that is replaced', () => {
  test('while it is shipped is shipped to its end, and then the other one', async () => {
    const [folder, other] = [newFolder(), newFolder()];
    const [rows, later] = [loadRows(30_000), loadRows(3000)];
    const writer = liveWriter(folder);
    appendRows(writer, rows);
    const service = startShip(folder, server.url, '--flush', '1s', '--group-events', '4096');
    await sleep(900);
    writer.close();
    for (const end of ['', '-wal', '-shm'])
      if (existsSync(recordingPath(folder) + end))
        renameSync(recordingPath(folder) + end, `${recordingPath(folder)}.old${end}`);
    const next = liveWriter(other);
    appendRows(next, later);
    next.close();
    cpSync(recordingPath(other), recordingPath(folder));
    while ((await countAt(server, 'SELECT uniq(recording) FROM kreplay.segment')) < 2) await sleep(200);
    service.child.kill('SIGTERM');
    expect(await service.ended).toMatchObject({ code: 0 });
    const rowsThere = await countAt(
      server,
      'SELECT count() FROM (SELECT DISTINCT recording, number FROM kreplay.event)',
    );
    const lost = (await lossesAt(server)).unshipped ?? 0;
    expect(rowsThere + lost).toBe(rows.length + later.length);
  });

  test('by one that another machine ships is refused until it is claimed', async () => {
    const rows = loadRows(5000);
    const folder = recorded(rows.slice(0, 5000));
    await shipOnce(folder, server.url);
    const copy = newFolder();
    cpSync(recordingPath(folder), recordingPath(copy));
    const count = await countAt(server, 'SELECT count() FROM kreplay.event');
    const refused = await shipOnce(copy, server.url);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/another process.*--claim/) });
    expect(await countAt(server, 'SELECT count() FROM kreplay.event')).toBe(count);
    expect(await shipOnce(copy, server.url, '--claim')).toMatchObject({ code: 0 });
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 1 });
    await expectAll(server, rows);
  });
});
