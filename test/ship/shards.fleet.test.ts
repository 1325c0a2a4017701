/** Tests a node that moves to another shard: what has arrived at one is not sent to the other as well. */
import { setTimeout as sleep } from 'node:timers/promises';
import { emptyTables, startCluster } from '../clickhouse/cluster.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { newFolder, type Row } from '../daemon/recorded.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { expectSame, initFleet } from './fleet.ts';
import { endShippingHere, shipHere, startHere } from './here.ts';
import { loadRows, recordedInSegments } from './load.ts';
import { eventsOf, textOf } from './plain_events.ts';

let [one, other]: ClickHouseServer[] = [];

beforeAll(async () => {
  [one, other] = (await startCluster(2, 1)).flat();
  for (const shard of [one!, other!]) await initFleet(shard, 'main');
}, 120_000);
afterEach(endShippingHere);
afterAll(endServers);

const UPTIME_S_MIN = 7;
const COUNT = 600;
const GROUP_EVENTS = 400;
const TABLES = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'];
const parts = [0, 1, 2].map((i) => loadRows(COUNT, i * COUNT));

const record = (folder: string, rows: readonly Row[]) => recordedInSegments(rows, GROUP_EVENTS, folder);

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

describe('a node that moves to another shard', () => {
  beforeEach(() => emptyTables([one!, other!], TABLES));

  test('and back sends each event to one of them, also when servers are restarted', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    for (const [i, part] of parts.entries()) {
      const shard = i % 2 === 0 ? one! : other!;
      record(folder, part);
      rows.push(...part);
      expect((await shipHere(folder, shard.url)).log).toBe('');
      await expectOnce(rows);
      if (i === 0) continue;
      // A restart is seen by a later start, which must be later by more than clocks may be off.
      while ((await countAt(shard, 'SELECT uptime()')) < UPTIME_S_MIN) await sleep(200);
      await shard.kill();
      await shard.restart();
      // What this server acknowledged is sent again, and to it only.
      expect((await shipHere(folder, shard.url)).log).toContain('restarted');
      await expectOnce(rows);
    }
  }, 120_000);

  test('ends the group that it has begun at the first one', async () => {
    const folder = newFolder();
    record(folder, parts[0]!);
    // Without the table that is filled last, a group is begun and does not end.
    await one!.sql('RENAME TABLE kreplay.segment TO kreplay.away');
    const service = startHere(folder, one!.url, { eventsMax: GROUP_EVENTS });
    await service.logged(/tables do not fit/);
    await service.end();
    await one!.sql('RENAME TABLE kreplay.away TO kreplay.segment');
    const begun = await countAt(one!, 'SELECT count() FROM kreplay.event');
    expect(begun).toBeGreaterThan(0);
    expect(begun).toBeLessThan(COUNT);
    await expect(shipHere(folder, other!.url)).rejects.toThrow(/another shard.*--claim/);
    expect(await countAt(other!, 'SELECT count() FROM kreplay.event')).toBe(0);
    await shipHere(folder, one!.url);
    record(folder, parts[1]!);
    expect((await shipHere(folder, other!.url)).log).toBe('');
    await expectOnce([...parts[0]!, ...parts[1]!]);
  }, 120_000);
});
