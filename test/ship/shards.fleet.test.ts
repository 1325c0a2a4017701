/** Tests a node that moves to another shard: what has arrived at one is not sent to the other as well. */
import { setTimeout as sleep } from 'node:timers/promises';
import { emptyTables, hasCluster, startCluster } from '../clickhouse/cluster.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { start } from '../daemon/command_line.ts';
import { appendRows, newFolder, newWriter, type Row } from '../daemon/recorded.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { endShippers, expectSame, shipOnce, startShip } from './fleet.ts';
import { loadRows } from './load.ts';
import { eventsOf, textOf } from './plain_events.ts';

const withCluster = hasCluster ? describe : describe.skip;
let [one, other]: ClickHouseServer[] = [];

beforeAll(async () => {
  if (!hasCluster) return;
  [one, other] = (await startCluster(2, 1)).flat();
  const { code, stderr } = await start('fleet', 'init', '--cluster', 'main', '--url', one!.url, other!.url).ended;
  if (code !== 0) throw new Error(stderr);
}, 120_000);
afterEach(endShippers);
afterAll(endServers);

const UPTIME_S_MIN = 7;
const COUNT = 6000;
const TABLES = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'];
const parts = [0, 1, 2].map((i) => loadRows(COUNT, i * COUNT));

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
  beforeEach(() => emptyTables([one!, other!], TABLES));

  test('and back sends each event to one of them, also when servers are restarted', async () => {
    const folder = newFolder();
    const rows: Row[] = [];
    for (const [i, part] of parts.entries()) {
      const shard = i % 2 === 0 ? one! : other!;
      record(folder, part);
      rows.push(...part);
      expect(await shipOnce(folder, shard.url)).toMatchObject({ code: 0, stderr: '' });
      await expectOnce(rows);
      if (i === 0) continue;
      // A restart is seen by a later start, which must be later by more than clocks may be off.
      while ((await countAt(shard, 'SELECT uptime()')) < UPTIME_S_MIN) await sleep(200);
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
    // Without the table that is filled last, a group is begun and does not end.
    await one!.sql('RENAME TABLE kreplay.segment TO kreplay.away');
    const service = startShip(folder, one!.url, '--flush', '1s', '--group-events', '4096');
    await service.logged(/tables do not fit/);
    service.child.kill('SIGKILL');
    await service.ended;
    await one!.sql('RENAME TABLE kreplay.away TO kreplay.segment');
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
