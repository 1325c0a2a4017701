/**
 * Tests groups of which a server has rows and whose answer was lost, and which the byte limit removes on the node before
 * they are sent again: what was recorded is what arrived and what is reported as lost, and nothing is both.
 */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RecordingWriter } from '../../agent/recording/write/writer.ts';
import { type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { appendRows, newFolder, type Row, recordingPath } from '../daemon/recorded.ts';
import { arrivedAt, countAt, lossesAt, rowsAt } from './centre.ts';
import { type FaultProxy, startFaultProxy } from './fault_proxy.ts';
import { emptyFleet, forgetPosition, isThere, startFleet, stateOf } from './fleet.ts';
import { endShippingHere, type Here, shipHere, startHere } from './here.ts';
import { firstNumber, liveWriter, noisyRows, randomNumbers } from './load.ts';

let server: ClickHouseServer;
let proxy: FaultProxy;

beforeAll(async () => {
  server = await startFleet();
  proxy = await startFaultProxy(() => server.port);
  endWithServers(() => proxy.close());
});
afterEach(async () => {
  await endShippingHere();
  proxy?.refuse(false);
  await emptyFleet(server);
});
afterAll(endServers);

const SEGMENTS = 4;
/** The first group has four segments: 4096 events. */
const SEGMENT_EVENTS = 1024;
const RETAIN_BYTES = 5 << 15;
const SETTLED = 'SELECT argMax(shipped_number, at) FROM kreplay.node';
const random = randomNumbers(11);

function append(writer: RecordingWriter, rows: Row[]): void {
  const more = noisyRows(SEGMENT_EVENTS, rows.length, random);
  appendRows(writer, more, SEGMENT_EVENTS);
  for (const row of more) rows.push(row);
}

interface Begun {
  folder: string;
  rows: Row[];
  writer: RecordingWriter;
  service: Here;
}

/** A shipper to which no answer comes any more since its server has the events of its first group, and only these. */
async function begunGroup(): Promise<Begun> {
  const folder = newFolder();
  const rows: Row[] = [];
  const writer = liveWriter(folder, RETAIN_BYTES);
  for (let i = 0; i < SEGMENTS; i++) append(writer, rows);
  const isLost = proxy.next({ kind: 'lose_answer_to', request: 'INSERT+INTO+%60event%60' });
  const service = startHere(folder, proxy.url);
  await isLost;
  proxy.refuse(true);
  expect(await countAt(server, 'SELECT count() FROM kreplay.event')).toBe(SEGMENTS * SEGMENT_EVENTS);
  return { folder, rows, writer, service };
}

/** Records until the byte limit has removed this segment. */
function removeUntil({ folder, rows, writer }: Begun, number: number): void {
  while (firstNumber(folder) < number) append(writer, rows);
}

/** Expects that what is reported as lost is what did not arrive, and returns how much that is. */
async function expectExact(rows: readonly Row[]): Promise<number> {
  const { events } = await arrivedAt(server);
  const { unshipped = 0, ...others } = await lossesAt(server);
  expect(others).toEqual({});
  expect(events.size + unshipped).toBe(rows.length);
  return unshipped;
}

async function ended({ folder, writer, service }: Begun): Promise<void> {
  writer.close();
  await service.end();
  proxy.refuse(false);
  await shipHere(folder, proxy.url);
}

describe('what the byte limit removes of a group whose answer was lost', () => {
  test('is no loss where the server has it, all of it or a part', async () => {
    for (const removed of [SEGMENTS - 2, SEGMENTS]) {
      const begun = await begunGroup();
      removeUntil(begun, removed * SEGMENT_EVENTS);
      await ended(begun);
      const lost = await expectExact(begun.rows);
      expect(lost).toBe(Math.max(0, firstNumber(begun.folder) - SEGMENTS * SEGMENT_EVENTS));
      const segments = 'SELECT first_number AS first, end_number AS end, n FROM kreplay.segment ORDER BY first_number';
      const [first] = await rowsAt(server, segments);
      expect(first).toMatchObject({ first: '0' });
      expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment')).toBe(begun.rows.length - lost);
      await emptyFleet(server);
    }
  });

  test('is a gap without a count, as sums over that time lack it', async () => {
    const begun = await begunGroup();
    removeUntil(begun, (SEGMENTS - 2) * SEGMENT_EVENTS);
    await ended(begun);
    const gaps = await rowsAt(server, `SELECT count FROM kreplay.loss WHERE cause = 'unshipped'`);
    expect(gaps).toEqual([{ count: '0' }]);
  });

  test('is a loss where the server has it no more', async () => {
    const begun = await begunGroup();
    await emptyFleet(server);
    removeUntil(begun, (SEGMENTS - 2) * SEGMENT_EVENTS);
    await ended(begun);
    expect(await expectExact(begun.rows)).toBe(firstNumber(begun.folder));
  });
});

describe('what arrived since the last report of a shipper whose position is lost', () => {
  test.each([
    ['is no loss where it is removed before it is claimed', false],
    ['is no loss, and what is reported as lost is so once', true],
  ])('%s', async (_, hasLoss) => {
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, RETAIN_BYTES);
    for (let i = 0; i < SEGMENTS; i++) append(writer, rows);
    const service = startHere(folder, proxy.url);
    const begun = { folder, rows, writer, service };
    await isThere(server, rows.length);
    if (hasLoss) {
      proxy.refuse(true);
      removeUntil(begun, (SEGMENTS + 2) * SEGMENT_EVENTS);
      proxy.refuse(false);
      while ((await lossesAt(server)).unshipped === undefined) await sleep(50);
      // The server has to know that what is gone is settled.
      while ((await countAt(server, SETTLED)) < firstNumber(folder)) await sleep(50);
    }
    await service.end();
    forgetPosition(folder);
    removeUntil(begun, rows.length + 2 * SEGMENT_EVENTS);
    writer.close();
    await shipHere(folder, server.url, { claims: true });
    expect(await expectExact(rows)).toBeGreaterThan(0);
    expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment FINAL')).toBe(
      (await arrivedAt(server)).events.size,
    );
  });
});

describe('a recording that is replaced while its shipper is down', () => {
  test('has a loss of what was seen of it and did not arrive', async () => {
    const begun = await begunGroup();
    const { folder, rows, writer, service } = begun;
    await service.end();
    append(writer, rows);
    append(writer, rows);
    const other = startHere(folder, proxy.url);
    await seenIn(folder, rows.length);
    await other.end();
    writer.close();
    for (const end of ['', '-wal', '-shm']) rmSync(recordingPath(folder) + end, { force: true });
    const next = liveWriter(folder);
    appendRows(next, noisyRows(100, 0, random));
    next.close();
    proxy.refuse(false);
    await shipHere(folder, proxy.url);
    expect(await lossesAt(server)).toEqual({ unshipped: 2 * SEGMENT_EVENTS });
    const events = await countAt(server, 'SELECT count() FROM (SELECT DISTINCT recording, number FROM kreplay.event)');
    expect(events).toBe(SEGMENTS * SEGMENT_EVENTS + 100);
    expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment')).toBe(events);
  });
});

/** Waits until the shipper has written down that so many events are recorded. */
async function seenIn(folder: string, count: number): Promise<void> {
  const path = join(stateOf(folder), 'position.json');
  while (JSON.parse(readFileSync(path, 'utf8')).seen < count) await sleep(50);
}
