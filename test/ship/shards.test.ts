/** Tests a node that moves to another shard: what has arrived at one is not sent to the other as well. */
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCluster, startCluster } from '../clickhouse/cluster.ts';
import { type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { start } from '../daemon/command_line.ts';
import { appendRows, newFolder, newWriter, type Row } from '../daemon/recorded.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { type FaultProxy, startFaultProxy } from './fault_proxy.ts';
import { endShippers, expectSame, shipOnce, startShip } from './fleet.ts';
import { loadRows } from './load.ts';
import { eventsOf, textOf } from './plain_events.ts';

const withCluster = hasCluster ? describe : describe.skip;
let [one, other]: ClickHouseServer[] = [];
let proxy: FaultProxy;

beforeAll(async () => {
  if (!hasCluster) return;
  [one, other] = (await startCluster(2, 1)).flat();
  const { code, stderr } = await start('fleet', 'init', '--cluster', 'main', '--url', one!.url, other!.url).ended;
  if (code !== 0) throw new Error(stderr);
  proxy = await startFaultProxy(() => one!.port);
  endWithServers(() => proxy.close());
}, 120_000);
afterEach(endShippers);
afterAll(endServers);

const COUNT = 6000;
const TABLES = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'];
const parts = [0, 1, 2].map((i) => loadRows(COUNT, i * COUNT));

async function emptyShards(): Promise<void> {
  for (const shard of [one!, other!])
    for (const table of TABLES) await repeated(() => shard.sql(`TRUNCATE TABLE kreplay.${table}`));
}

/** A server that was restarted is no active replica before its keeper has let the earlier session end. */
async function repeated(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      return void (await work());
    } catch (error) {
      if (!String(error).includes('No active replicas')) throw error;
      await sleep(100);
    }
  }
}

function record(folder: string, rows: readonly Row[]): void {
  const writer = newWriter(folder);
  appendRows(writer, rows);
  writer.close();
}

/** Expects that each row is at one shard, and that sums over both shards are those of the rows. */
async function expectOnce(rows: readonly Row[]): Promise<void> {
  const events = eventsOf(rows);
  const { events: arrived } = await arrivedAt(one!, 'kreplay.event_all');
  expectSame(arrived, new Map(events.map((event) => [event.number, textOf(event)])));
  for (const table of ['stat', 'segment'])
    expect(await countAt(one!, `SELECT sum(n) FROM kreplay.${table}_all FINAL`)).toBe(rows.length);
  const numbers = await Promise.all(
    [one!, other!].map((shard) => countAt(shard, 'SELECT uniqExact(number) FROM kreplay.event')),
  );
  expect(numbers.reduce((sum, count) => sum + count, 0)).toBe(rows.length);
  expect(await lossesAt(one!)).toEqual({});
  expect(await lossesAt(other!)).toEqual({});
}

withCluster('a node that moves to another shard', () => {
  beforeEach(emptyShards);

  test('and back sends each event to one of them, also when servers are restarted', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    for (const [i, part] of parts.entries()) {
      const shard = i % 2 === 0 ? one! : other!;
      record(folder, part);
      rows.push(...part);
      expect(await shipOnce(folder, shard.url)).toMatchObject({ code: 0, stderr: '' });
      await expectOnce(rows);
      await shard.kill();
      await shard.restart();
      // What this server acknowledged is sent again, and to it only.
      expect(await shipOnce(folder, shard.url)).toMatchObject({ code: 0, stderr: expect.stringMatching(/restarted/) });
      await expectOnce(rows);
    }
  }, 120_000);

  test('ends the group that it has begun at the first one', async () => {
    const folder = newFolder();
    record(folder, parts[0]!);
    // The answers to what it asks first are some ten pieces; later ones are to parts of the group.
    const cut = proxy.next({ kind: 'lose_answer', answers: 24 });
    const service = startShip(folder, proxy.url, '--flush', '1s', '--group-events', '4096');
    await cut;
    service.child.kill('SIGKILL');
    await service.ended;
    const begun = await countAt(one!, 'SELECT count() FROM kreplay.event');
    expect(begun).toBeGreaterThan(0);
    expect(begun).toBeLessThan(COUNT);
    expect(await shipOnce(folder, other!.url)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/another shard.*--claim/),
    });
    expect(await countAt(other!, 'SELECT count() FROM kreplay.event')).toBe(0);
    expect(await shipOnce(folder, one!.url)).toMatchObject({ code: 0 });
    record(folder, parts[1]!);
    expect(await shipOnce(folder, other!.url)).toMatchObject({ code: 0, stderr: '' });
    await expectOnce([...parts[0]!, ...parts[1]!]);
  }, 120_000);
});
