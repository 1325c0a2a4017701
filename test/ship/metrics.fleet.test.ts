/** Tests what a shipper reports, through the daemon of its node. */
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, createServer } from 'node:net';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { type ClickHouseServer, endServers, endWithServers, freePort } from '../clickhouse/server.ts';
import { type Sample, total, valuesOf } from '../daemon/metrics/scraped.ts';
import { newFolder, type Row, recorded, recordingPath, START } from '../daemon/recorded.ts';
import { countAt } from './centre.ts';
import { emptyFleet, endShippers, startFleet, startShip } from './fleet.ts';
import { type Scraped, samplesWhen, startDaemon } from './scraping.ts';

let server: ClickHouseServer;
let daemon: Scraped;

beforeAll(async () => {
  server = await startFleet();
  daemon = await startDaemon('--data', recorded(rows.slice(0, 1)), '--ship-state', STATE);
});
afterEach(async () => {
  await endShippers();
  rmSync(STATE, { recursive: true, force: true });
  await emptyFleet(server);
});
afterAll(endServers);

const COUNT = 6_000;
const rows: Row[] = Array.from({ length: COUNT }, (_, i) => ({ at: START + BigInt(i) * 1_000_000n }));
const node = { node: 'test-node' };

/** Where the shipper of each test has its state, and the daemon looks for it. */
const STATE = join(newFolder(), 'ship');

const startReported = (folder: string, url: string, ...more: string[]) =>
  startShip(folder, url, '--state', STATE, ...more);

const has = (name: string, value: number) => (samples: readonly Sample[]) => valuesOf(samples, name).includes(value);

const ofShipping = (samples: readonly Sample[]) =>
  samples.filter(({ name }) => name.startsWith('kreplay_ship_')).map(({ name }) => name);

/** Passes everything on to the server, and counts it. */
async function counting({ port }: ClickHouseServer): Promise<{ url: string; sentBytes(): number }> {
  let bytes = 0;
  const own = await freePort();
  const proxy = createServer((client) => {
    const upstream = connectTcp(port, '127.0.0.1');
    client.on('data', (piece) => {
      bytes += piece.length;
    });
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => {});
  }).listen(own, '127.0.0.1');
  endWithServers(async () => {
    proxy.close();
  });
  return { url: `http://127.0.0.1:${own}`, sentBytes: () => bytes };
}

describe('a shipper that is at work', () => {
  test('reports what has arrived, how long it took, and that nothing waits', async () => {
    const folder = recorded(rows);
    const proxy = await counting(server);
    const shipping = startReported(folder, proxy.url, '--flush', '1s', '--group-events', '4096');
    const samples = await samplesWhen(daemon, has('kreplay_ship_events_total', COUNT));
    expect(valuesOf(samples, 'kreplay_ship_up')).toEqual([1]);
    expect(valuesOf(samples, 'kreplay_ship_events_total', node)).toEqual([COUNT]);
    expect(await countAt(server, 'SELECT count() FROM kreplay.event')).toBe(COUNT);
    expect(valuesOf(samples, 'kreplay_ship_unshipped_events_total', node)).toEqual([0]);
    expect(valuesOf(samples, 'kreplay_ship_backlog_events', node)).toEqual([0]);
    expect(valuesOf(samples, 'kreplay_ship_backlog_seconds', node)).toEqual([0]);
    expect(valuesOf(samples, 'kreplay_ship_blocked', node)).toEqual([0]);
    expect(total(samples, 'kreplay_ship_retries_total')).toBe(0);
    expect(valuesOf(samples, 'kreplay_ship_retries_total', { code: 'unreachable' })).toEqual([0]);
    expect(valuesOf(samples, 'kreplay_ship_insert_duration_seconds_count', node)).toEqual([2]);
    // The clock is the same, and 18.16 shows whole seconds.
    expect(Math.abs(valuesOf(samples, 'kreplay_ship_clock_offset_seconds', node)[0]!)).toBeLessThan(1.1);
    // Most of what goes over the wire is rows; the rest is headers and statements.
    const [bytes] = valuesOf(samples, 'kreplay_ship_wire_bytes_total', node);
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(proxy.sentBytes());
    expect(bytes).toBeGreaterThan(proxy.sentBytes() / 2);

    expect(statSync(join(STATE, 'ship.sock')).mode & 0o777).toBe(0o620);
    shipping.child.kill('SIGTERM');
    expect((await shipping.ended).code).toBe(0);
    expect(existsSync(join(STATE, 'ship.sock'))).toBe(false);
    expect(ofShipping(await daemon.samples())).toEqual(['kreplay_ship_up']);
    expect(valuesOf(await daemon.samples(), 'kreplay_ship_up')).toEqual([0]);
  });

  test('counts what waits while the server is away, and its failures', async () => {
    const folder = recorded(rows);
    const url = `http://127.0.0.1:${await freePort()}`;
    startReported(folder, url);
    const before = Date.now() / 1000;
    const isRetried = (samples: readonly Sample[]) =>
      total(samples, 'kreplay_ship_retries_total', { code: 'unreachable' }) >= 2;
    const samples = await samplesWhen(daemon, isRetried);
    expect(total(samples, 'kreplay_ship_retries_total')).toBeGreaterThanOrEqual(2);
    expect(valuesOf(samples, 'kreplay_ship_backlog_events', node)).toEqual([COUNT]);
    const age = valuesOf(samples, 'kreplay_ship_backlog_seconds', node)[0]!;
    expect(Math.abs(age - (before - Number(START) / 1e9))).toBeLessThan(30);
    expect(valuesOf(samples, 'kreplay_ship_blocked', node)).toEqual([0]);
    expect(valuesOf(samples, 'kreplay_ship_clock_offset_seconds')).toEqual([]);
  });

  test('says when an operator must act', async () => {
    const folder = recorded(rows);
    startReported(folder, server.url, '--database', 'nothing_here');
    const samples = await samplesWhen(daemon, has('kreplay_ship_blocked', 1));
    expect(valuesOf(samples, 'kreplay_ship_blocked', node)).toEqual([1]);
    // It tries again each 1.5 to 3 s.
    expect(total(samples, 'kreplay_ship_retries_total')).toBeGreaterThanOrEqual(1);
    expect(valuesOf(samples, 'kreplay_ship_backlog_events', node)).toEqual([COUNT]);
  });

  test('counts events that were removed before they were sent', async () => {
    const folder = recorded(rows);
    const database = new Database(recordingPath(folder));
    const [{ event_count: removed }] = database
      .prepare('DELETE FROM segment WHERE first_number = 0 RETURNING event_count')
      .all() as [{ event_count: number }];
    database.close();
    startReported(folder, server.url, '--flush', '1s');
    const left = COUNT - removed;
    const samples = await samplesWhen(daemon, has('kreplay_ship_events_total', left));
    expect(valuesOf(samples, 'kreplay_ship_events_total', node)).toEqual([left]);
    expect(valuesOf(samples, 'kreplay_ship_unshipped_events_total', node)).toEqual([removed]);
  });
});

describe('a node without a shipper that answers', () => {
  test('has no series if it never shipped', async () => {
    mkdirSync(STATE);
    expect(ofShipping(await daemon.samples())).toEqual([]);
    const folder = recorded(rows.slice(0, 1));
    expect(ofShipping(await (await startDaemon('--data', folder)).samples())).toEqual([]);
  });

  test.each([
    ['nonsense', '{"node":1}'],
    ['nothing', ''],
    ['a report that is cut short', '{"node":"n","events":'],
  ])('is down if a socket that sends %s is there', async (_name, answer) => {
    mkdirSync(STATE);
    writeFileSync(join(STATE, 'position.json'), '{}');
    const odd = createServer((socket) => socket.end(answer)).listen(join(STATE, 'ship.sock'));
    expect(valuesOf(await daemon.samples(), 'kreplay_ship_up')).toEqual([0]);
    expect(ofShipping(await daemon.samples())).toEqual(['kreplay_ship_up']);
    odd.close();
  });

  test('a folder that cannot be read is none that ships', async () => {
    expect(ofShipping(await daemon.samples())).toEqual([]);
    writeFileSync(STATE, 'no folder');
    expect(ofShipping(await daemon.samples())).toEqual([]);
  });
});
