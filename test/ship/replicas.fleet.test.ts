/**
 * Tests a shard of two replicas, of which one is killed or away, and whose keeper is away: nothing is lost or doubled,
 * and nothing counts as lost that one of them may have.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { emptyTables, startCluster, startKeeper } from '../clickhouse/cluster.ts';
import { type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { appendRows, newFolder, type Row } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { type FaultProxy, startFaultProxy } from './fault_proxy.ts';
import { expectAll, initFleet } from './fleet.ts';
import { endShippingHere, shipHere, startHere } from './here.ts';
import { firstNumber, liveWriter, loadRows, noisyRows, randomNumbers, recordedInSegments, startLoad } from './load.ts';

let replicas: ClickHouseServer[] = [];
let keeperProxy: FaultProxy;
/** In front of the first replica. */
let proxy: FaultProxy;

beforeAll(async () => {
  const keeper = await startKeeper();
  keeperProxy = await startFaultProxy(() => keeper);
  endWithServers(() => keeperProxy.close());
  replicas = (await startCluster(1, 2, keeperProxy.port))[0]!;
  for (const replica of replicas) await initFleet(replica, 'main');
  proxy = await startFaultProxy(() => replicas[0]!.port);
  endWithServers(() => proxy.close());
}, 240_000);
beforeEach(() => emptyTables(replicas, TABLES));
afterEach(endShippingHere);
afterAll(endServers);

const TABLES = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'];
const GROUP_EVENTS = 400;
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

describe('a shard of two replicas', () => {
  test('of which one at a time is killed gets all, once, on both', async () => {
    const folder = newFolder();
    const load = startLoad(folder, 100);
    const random = randomNumbers(5);
    const service = startHere(folder, urls(), { eventsMax: 4096 });
    for (let kills = 0; kills < times(2); kills++) {
      const killed = replicas[kills % 2]!;
      await sleep(500 + random() * 1000);
      await killed.kill();
      await sleep(random() * 1000);
      await killed.restart();
    }
    await load.stop();
    await service.end();
    await shipHere(folder, urls());
    await settle();
    for (const replica of replicas) await expectAll(replica, load.rows);
  }, 240_000);

  test('whose keeper is away for some seconds gets all, once', async () => {
    const rows = loadRows(5 * GROUP_EVENTS);
    const folder = recordedInSegments(rows, GROUP_EVENTS);
    keeperProxy.refuse(true);
    await sleep(3000);
    const { ended, logged } = startHere(folder, urls(), { once: true, eventsMax: GROUP_EVENTS });
    await logged(/keeper.*code 242|code 999/);
    await sleep(500);
    keeperProxy.refuse(false);
    await ended;
    await settle();
    for (const replica of replicas) await expectAll(replica, rows);
  }, 240_000);
});

const SEGMENT_EVENTS = 1024;

describe('a replica that does not have yet what another one took', () => {
  test('is waited for before that counts as lost', async () => {
    const [one, other] = replicas as [ClickHouseServer, ClickHouseServer];
    await other.sql('SYSTEM STOP FETCHES kreplay.event');
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, 3 << 16);
    const random = randomNumbers(13);
    const append = () => {
      const more = noisyRows(SEGMENT_EVENTS, rows.length, random);
      appendRows(writer, more, SEGMENT_EVENTS);
      rows.push(...more);
    };
    append();
    append();
    const isLost = proxy.next({ kind: 'lose_answer_to', request: 'INSERT+INTO+%60event%60' });
    const service = startHere(folder, [proxy.url, other.url]);
    await isLost;
    await one.kill();
    await service.end();
    while (firstNumber(folder) < 2 * SEGMENT_EVENTS) append();
    writer.close();
    const { logged, ended } = startHere(folder, [proxy.url, other.url], { once: true });
    await logged(/does not have all yet/);
    expect(await lossesAt(other)).toEqual({});
    await one.restart();
    await other.sql('SYSTEM START FETCHES kreplay.event');
    await ended;
    const { events } = await arrivedAt(other);
    const { unshipped = 0 } = await lossesAt(other);
    expect(events.size + unshipped).toBe(rows.length);
    expect(await countAt(other, 'SELECT min(number) FROM kreplay.event')).toBe(0);
  }, 240_000);
});
