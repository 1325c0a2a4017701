/** Tests a group whose answer was lost by a replica that then goes away, and which the node removes meanwhile. */
import { hasCluster, startCluster, startKeeper } from '../clickhouse/cluster.ts';
import { type ClickHouseServer, endServers, endWithServers } from '../clickhouse/server.ts';
import { start } from '../daemon/command_line.ts';
import { appendRows, newFolder, type Row } from '../daemon/recorded.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { type FaultProxy, startFaultProxy } from './fault_proxy.ts';
import { endShippers, startShip } from './fleet.ts';
import { firstNumber, liveWriter, noisyRows, randomNumbers } from './load.ts';

const withCluster = hasCluster ? describe : describe.skip;
const SEGMENT_EVENTS = 4096;
const random = randomNumbers(13);
let replicas: ClickHouseServer[] = [];
let proxy: FaultProxy;

beforeAll(async () => {
  if (!hasCluster) return;
  const keeper = await startKeeper();
  replicas = (await startCluster(1, 2, keeper))[0]!;
  proxy = await startFaultProxy(() => replicas[0]!.port);
  endWithServers(() => proxy.close());
  const urls = replicas.map(({ url }) => url);
  const { code, stderr } = await start('fleet', 'init', '--cluster', 'main', '--url', ...urls).ended;
  if (code !== 0) throw new Error(stderr);
}, 240_000);
afterEach(endShippers);
afterAll(endServers);

withCluster('a replica that does not have yet what another one took', () => {
  test('is waited for before that counts as lost', async () => {
    const [one, other] = replicas as [ClickHouseServer, ClickHouseServer];
    await other.sql('SYSTEM STOP FETCHES kreplay.event');
    const folder = newFolder();
    const rows: Row[] = [];
    const writer = liveWriter(folder, 3 << 19);
    const append = () => {
      const more = noisyRows(SEGMENT_EVENTS, rows.length, random);
      appendRows(writer, more, SEGMENT_EVENTS);
      rows.push(...more);
    };
    append();
    append();
    const isLost = proxy.next({ kind: 'lose_answer_to', request: 'INSERT+INTO+%60event%60' });
    const service = startShip(folder, [proxy.url, other.url], '--flush', '1s');
    await isLost;
    await one.kill();
    service.child.kill('SIGKILL');
    await service.ended;
    while (firstNumber(folder) < 2 * SEGMENT_EVENTS) append();
    writer.close();
    const { logged, ended } = startShip(folder, [proxy.url, other.url], '--once');
    await logged(/does not have all yet/);
    expect(await lossesAt(other)).toEqual({});
    await one.restart();
    await other.sql('SYSTEM START FETCHES kreplay.event');
    expect(await ended).toMatchObject({ code: 0 });
    const { events } = await arrivedAt(other);
    const { unshipped = 0 } = await lossesAt(other);
    expect(events.size + unshipped).toBe(rows.length);
    expect(await countAt(other, 'SELECT min(number) FROM kreplay.event')).toBe(0);
  }, 240_000);
});
