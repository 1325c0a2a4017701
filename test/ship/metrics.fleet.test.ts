/** Tests what a shipper reports, through the daemon of its node. */
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, createServer } from 'node:net';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { type ClickHouseServer, endServers, endWithServers, freePort, isInstalled } from '../clickhouse/server.ts';
import { type Sample, total, valuesOf } from '../daemon/metrics/scraped.ts';
import { newFolder, type Row, recorded, recordingPath, START } from '../daemon/recorded.ts';
import { countAt } from './centre.ts';
import { emptyFleet, endShippers, startFleet, startShip, stateOf } from './fleet.ts';
import { endDaemons, type Scraped, samplesWhen, startDaemon } from './scraping.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(async () => {
  await endDaemons();
  await endShippers();
  if (isInstalled) await emptyFleet(server);
});
afterAll(endServers);

const COUNT = 6_000;
const rows: Row[] = Array.from({ length: COUNT }, (_, i) => ({ at: START + BigInt(i) * 1_000_000n }));
const node = { node: 'test-node' };

const daemonBeside = (folder: string): Promise<Scraped> =>
  startDaemon('--data', folder, '--ship-state', stateOf(folder));

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

withServer('a shipper that is at work', () => {
  test('reports what has arrived, how long it took, and that nothing waits', async () => {
    const folder = recorded(rows);
    const proxy = await counting(server);
    const shipping = startShip(folder, proxy.url, '--flush', '1s', '--group-events', '4096');
    const daemon = await daemonBeside(folder);
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

    expect(statSync(join(stateOf(folder), 'ship.sock')).mode & 0o777).toBe(0o620);
    shipping.child.kill('SIGTERM');
    expect((await shipping.ended).code).toBe(0);
    expect(existsSync(join(stateOf(folder), 'ship.sock'))).toBe(false);
    expect(ofShipping(await daemon.samples())).toEqual(['kreplay_ship_up']);
    expect(valuesOf(await daemon.samples(), 'kreplay_ship_up')).toEqual([0]);
  });

  test('counts what waits while the server is away, and its failures', async () => {
    const folder = recorded(rows);
    const url = `http://127.0.0.1:${await freePort()}`;
    startShip(folder, url);
    const daemon = await daemonBeside(folder);
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
    startShip(folder, server.url, '--database', 'nothing_here');
    const samples = await samplesWhen(await daemonBeside(folder), has('kreplay_ship_blocked', 1));
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
    startShip(folder, server.url, '--flush', '1s');
    const left = COUNT - removed;
    const samples = await samplesWhen(await daemonBeside(folder), has('kreplay_ship_events_total', left));
    expect(valuesOf(samples, 'kreplay_ship_events_total', node)).toEqual([left]);
    expect(valuesOf(samples, 'kreplay_ship_unshipped_events_total', node)).toEqual([removed]);
  });
});

describe('a node without a shipper that answers', () => {
  test('has no series if it never shipped', async () => {
    const folder = recorded(rows.slice(0, 1));
    const daemon = await daemonBeside(folder);
    expect(ofShipping(await daemon.samples())).toEqual([]);
    expect(ofShipping(await (await startDaemon('--data', folder)).samples())).toEqual([]);
  });

  test.each([
    ['nonsense', '{"node":1}'],
    ['nothing', ''],
    ['a report that is cut short', '{"node":"n","events":'],
  ])('is down if a socket that sends %s is there', async (_name, answer) => {
    const folder = recorded(rows.slice(0, 1));
    mkdirSync(stateOf(folder));
    writeFileSync(join(stateOf(folder), 'position.json'), '{}');
    const odd = createServer((socket) => socket.end(answer)).listen(join(stateOf(folder), 'ship.sock'));
    const daemon = await daemonBeside(folder);
    expect(valuesOf(await daemon.samples(), 'kreplay_ship_up')).toEqual([0]);
    expect(ofShipping(await daemon.samples())).toEqual(['kreplay_ship_up']);
    odd.close();
  });

  test('a folder that cannot be read is none that ships', async () => {
    const folder = recorded(rows.slice(0, 1));
    const daemon = await startDaemon('--data', folder, '--ship-state', join(newFolder(), 'missing'));
    expect(ofShipping(await daemon.samples())).toEqual([]);
  });
});
