/** Tests what a daemon says of the fleet that it serves: to Prometheus, and to a supervisor. */
import { type ClickHouseServer, endServers } from '../../clickhouse/server.ts';
import { emptyFleet, startFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import { endDaemons, type Scraped, startDaemon } from '../../ship/scraping.ts';
import { recordedOn, START } from '../recorded.ts';
import { total, valuesOf } from './scraped.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await endDaemons();
  if (server.child.exitCode === null && server.child.signalCode === null) await emptyFleet(server);
});
afterAll(endServers);

const SECOND = 1_000_000_000n;
const nowNs = () => BigInt(Date.now()) * 1_000_000n;

interface Said {
  node: string;
  /** Seconds since the node was heard, and by which its events are behind, by its own clock. */
  heard: number;
  behind?: number;
  /** Server's clock minus node's. */
  offset?: number;
  ended?: boolean;
  recording?: number;
}

/** A row of the table as a shipper writes it. */
async function say({ node, heard, behind = 0, offset = 0, ended = false, recording = 1 }: Said): Promise<void> {
  const own = nowNs() - BigInt(offset) * SECOND;
  const [at, watermark] = [own - BigInt(heard) * SECOND, own - BigInt(heard + behind) * SECOND];
  await server.sql(
    `INSERT INTO kreplay.node (recording, at, node, created_ns, alive_ns, ended_ns, watermark_ns, clock_offset_ns)
      VALUES (${recording}, ${at}, '${node}', 1, ${watermark}, ${ended ? watermark : 0}, ${watermark}, ${BigInt(offset) * SECOND})`,
  );
}

const fleetDaemon = (): Promise<Scraped> => startDaemon('--fleet-url', server.url);

async function readyNodes(daemon: Scraped): Promise<unknown> {
  const { status, text } = await daemon.get('/readyz');
  expect(status).toBe(200);
  return JSON.parse(text).fleet.nodes;
}

describe('a daemon of a fleet', () => {
  test('counts nodes by what was last heard of them, by the clock of the server', async () => {
    await say({ node: 'well', heard: 20, behind: 3, recording: 1 });
    await say({ node: 'behind', heard: 5, behind: 500, recording: 2 });
    // Its clock is ten minutes behind, and it was heard just now.
    await say({ node: 'slow-clock', heard: 1, behind: 4, offset: 600, recording: 3 });
    await say({ node: 'silent', heard: 90, recording: 4 });
    await say({ node: 'fast-clock', heard: 300, offset: -250, recording: 5 });
    await say({ node: 'over', heard: 40, ended: true, recording: 6 });
    await say({ node: 'gone', heard: 4000, recording: 7 });
    // A node with a new recording counts once, by the new one.
    await say({ node: 'well', heard: 5000, ended: true, recording: 8 });
    // A node that was heard again.
    await say({ node: 'silent-once', heard: 100, recording: 9 });
    await say({ node: 'silent-once', heard: 2, recording: 9 });
    const daemon = await fleetDaemon();
    expect(await readyNodes(daemon)).toEqual({ current: 4, silent: 2, ended: 2 });
    const samples = await daemon.samples();
    const nodes = (state: string) => valuesOf(samples, 'kreplay_fleet_nodes', { state });
    expect([nodes('current'), nodes('silent'), nodes('ended')]).toEqual([[4], [2], [2]]);
    const lag = (quantile: string) => valuesOf(samples, 'kreplay_fleet_lag_seconds', { quantile })[0]!;
    expect(lag('1')).toBeGreaterThan(500);
    expect(lag('1')).toBeLessThan(530);
    expect(lag('0.5')).toBeLessThan(50);
    expect(valuesOf(samples, 'kreplay_fleet_lag_seconds')).toHaveLength(4);
    expect(samples.some(({ name, labels }) => name.startsWith('kreplay_fleet_') && 'node' in labels)).toBe(false);
  });

  test('an empty fleet has no lag and no oldest event', async () => {
    const daemon = await fleetDaemon();
    expect(await readyNodes(daemon)).toEqual({ current: 0, silent: 0, ended: 0 });
    const samples = await daemon.samples();
    expect(valuesOf(samples, 'kreplay_fleet_nodes')).toEqual([0, 0, 0]);
    expect(valuesOf(samples, 'kreplay_fleet_lag_seconds')).toEqual([]);
    expect(valuesOf(samples, 'kreplay_fleet_oldest_timestamp_seconds')).toEqual([]);
    expect(valuesOf(samples, 'kreplay_fleet_unavailable_shards')).toEqual([0]);
    expect(total(samples, 'kreplay_ready')).toBe(1);
  });

  test('parts, the oldest hour and the durations of statements are those of the server', async () => {
    const rows = Array.from({ length: 50 }, (_, i) => ({ at: START + BigInt(i) * 60n * SECOND }));
    await shipHere(recordedOn('n', rows), server.url);
    const daemon = await fleetDaemon();
    const before = total(await daemon.samples(), 'kreplay_fleet_query_duration_seconds_count');
    const { status, text } = await daemon.get(`/api/events?from=${START}&limit=5`);
    expect([status, JSON.parse(text).events.length]).toEqual([200, 5]);
    const samples = await daemon.samples();
    expect(valuesOf(samples, 'kreplay_fleet_oldest_timestamp_seconds')).toEqual([Number(START / SECOND)]);
    const parts = Number(
      await server.sql(`SELECT max(n) FROM (SELECT count() AS n FROM system.parts
        WHERE active AND database = 'kreplay' GROUP BY table, partition)`),
    );
    expect(valuesOf(samples, 'kreplay_fleet_parts_max')).toEqual([parts]);
    expect(total(samples, 'kreplay_fleet_query_duration_seconds_count')).toBeGreaterThan(before);
    // 18.16 does not say how full its disks are.
    expect(valuesOf(samples, 'kreplay_fleet_disk_free_ratio')).toEqual([]);
    expect(valuesOf(samples, 'kreplay_recording_events')).toEqual([]);
  });

  test('is not ready while the server is away', async () => {
    const daemon = await fleetDaemon();
    await server.kill();
    const { status, text } = await daemon.get('/readyz');
    expect([status, JSON.parse(text).code]).toEqual([503, 'recording_unavailable']);
    expect(JSON.parse(text).detail).toContain('cannot be reached');
    const samples = await daemon.samples();
    expect(total(samples, 'kreplay_ready')).toBe(0);
    const names = new Set(samples.map(({ name }) => name).filter((name) => name.startsWith('kreplay_fleet_')));
    expect([...names].every((name) => name.startsWith('kreplay_fleet_query_duration_seconds'))).toBe(true);
    await server.restart();
    await readyNodes(daemon);
    expect(total(await daemon.samples(), 'kreplay_ready')).toBe(1);
  });
});
