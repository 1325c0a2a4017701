/** Tests a shard of two replicas, of which one is killed, and whose keeper is away: nothing is lost or doubled. */
import { setTimeout as sleep } from 'node:timers/promises';
import { emptyTables, hasCluster, startCluster, startKeeper } from '../clickhouse/cluster.ts';
import { type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { start } from '../daemon/command_line.ts';
import { newFolder, recorded } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { type FaultProxy, startFaultProxy } from './fault_proxy.ts';
import { endShippers, expectAll, shipOnce, startShip } from './fleet.ts';
import { loadRows, randomNumbers, startLoad } from './load.ts';

const withCluster = hasCluster ? describe : describe.skip;
let replicas: ClickHouseServer[] = [];
let keeperProxy: FaultProxy;

beforeAll(async () => {
  if (!hasCluster) return;
  const keeper = await startKeeper();
  keeperProxy = await startFaultProxy(() => keeper);
  endWithServers(() => keeperProxy.close());
  replicas = (await startCluster(1, 2, keeperProxy.port))[0]!;
  const { code, stderr } = await start('fleet', 'init', '--cluster', 'main', '--url', ...urls()).ended;
  if (code !== 0) throw new Error(stderr);
}, 240_000);
afterEach(endShippers);
afterAll(endServers);

const TABLES = ['event', 'by_id', 'transaction', 'stat', 'loss', 'segment'];
const LOG = `SELECT table, log_pointer FROM system.replicas WHERE database = 'kreplay' ORDER BY table`;
const BEHIND = `SELECT (SELECT count() FROM system.replicas WHERE database = 'kreplay'
    AND (is_readonly OR log_max_index >= log_pointer AND log_max_index > 0))
  + (SELECT count() FROM system.replication_queue WHERE database = 'kreplay' AND type != 'MERGE_PARTS')`;
const QUEUE = `SELECT table, type, new_part_name, num_tries, last_exception, postpone_reason FROM system.replication_queue
  WHERE database = 'kreplay' FORMAT Vertical`;
const SETTLED_MS_MAX = 90_000;
const urls = () => replicas.map(({ url }) => url);

/**
 * Waits until each replica has all rows. `SYSTEM SYNC REPLICA` waits for merges too, and a server of version 18.16 that
 * was killed while it merged does not get past what it left on the disk for a day (temporary_directories_lifetime).
 */
async function settle(): Promise<void> {
  const endMs = performance.now() + SETTLED_MS_MAX;
  for (;;) {
    const logs = await Promise.all(replicas.map(async (replica) => String(await replica.sql(LOG))));
    const waiting = await Promise.all(replicas.map(async (replica) => Number(await replica.sql(BEHIND))));
    if (new Set(logs).size === 1 && Math.max(...waiting) === 0) return;
    if (performance.now() > endMs) {
      const queues = await Promise.all(replicas.map(async (replica) => String(await replica.sql(QUEUE))));
      throw new Error(`the replicas differ: ${logs.join('; ')}; ${waiting.join(' and ')} wait:\n${queues.join('\n')}`);
    }
    await sleep(100);
  }
}

withCluster('a shard of two replicas', () => {
  test('of which one at a time is killed gets all, once, on both', async () => {
    const folder = newFolder();
    const load = startLoad(folder, 250);
    const random = randomNumbers(5);
    const service = startShip(folder, urls(), '--flush', '1s', '--group-events', '4096');
    for (let kills = 0; kills < times(4); kills++) {
      const killed = replicas[kills % 2]!;
      await sleep(500 + random() * 1500);
      await killed.kill();
      await sleep(random() * 1500);
      await killed.restart();
    }
    await load.stop();
    service.child.kill('SIGKILL');
    await service.ended;
    expect(await shipOnce(folder, urls())).toMatchObject({ code: 0 });
    await settle();
    for (const replica of replicas) await expectAll(replica, load.rows);
  }, 240_000);

  test('whose keeper is away for some seconds gets all, once', async () => {
    await emptyTables(replicas, TABLES);
    const rows = loadRows(20_000);
    const folder = recorded(rows);
    keeperProxy.refuse(true);
    await sleep(3000);
    const { ended, logged } = startShip(folder, urls(), '--once', '--group-events', '4096');
    await logged(/keeper.*code 242|code 999/);
    await sleep(500);
    keeperProxy.refuse(false);
    const { code, stderr } = await ended;
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    await settle();
    for (const replica of replicas) await expectAll(replica, rows);
  }, 240_000);
});
