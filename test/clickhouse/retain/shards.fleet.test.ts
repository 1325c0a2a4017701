/** Tests that hours go from all shards of a cluster, once for all replicas, and that pins keep what was on several. */
import { dirname } from 'node:path';
import { connect } from '../../../agent/clickhouse/connection/connection.ts';
import { BUCKET_NS_DEFAULT } from '../../../agent/clickhouse/tables/schema.ts';
import { createFleet } from '../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../daemon/store/fleet/fleet_store.ts';
import { start } from '../../daemon/command_line.ts';
import { START } from '../../daemon/recorded.ts';
import { eventsIn, hoursAt, twoNodes } from '../../daemon/store/fleet/two_nodes.ts';
import { initFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import { startCluster } from '../cluster.ts';
import { type ClickHouseServer, endServers } from '../server.ts';
import { ageOf } from './old_fleet.ts';

let shards: ClickHouseServer[][];

afterAll(endServers);

describe('kreplay fleet retain in a cluster', () => {
  test('drops from all shards, and keeps what is pinned of both', async () => {
    shards = await startCluster(2, 2);
    const urls = shards.map((replicas) => replicas.map(({ url }) => url));
    const fleet = (command: string, ...args: string[]) => start('fleet', command, ...args).ended;
    for (const server of shards.flat()) await initFleet(server, 'main');
    for (const [i, path] of twoNodes().entries()) await shipHere(dirname(path), urls[i]!);
    const connection = connect({ urls: urls[0]!, database: 'kreplay' });
    const store = createFleetStore(createFleet(connection, { bucketNs: BUCKET_NS_DEFAULT, isCluster: true }));
    expect(await store.pin({ transactionId: 'order-1', beforeNs: 0n, nowNs: START })).toHaveLength(2);
    const summary = await store.findTransaction('order-1');
    const events = await eventsIn(store, { transactionId: 'order-1' });
    expect(events).toHaveLength(15);

    const retain = (...servers: string[]) => fleet('retain', '--free', '0%', '--age', ageOf(2n), '--url', ...servers);
    expect(await retain(urls[0]![0]!)).toMatchObject({ code: 1, stderr: expect.stringContaining('2 shards') });
    const done = await retain(urls[0]![1]!, ...urls[1]!);
    expect(done).toMatchObject({ code: 0, stdout: expect.stringMatching(/dropped 2 hours.*\n.*dropped 2 hours/) });
    for (const [i, replicas] of shards.entries()) {
      const [first, second] = await Promise.all(replicas.map((server) => hoursAt(server)));
      expect(first).toEqual([0, 0, 60, 60]);
      expect(second).toEqual(first);
      const losses = 'SELECT node, count FROM kreplay.loss';
      expect((await replicas[1]!.sql(losses)).toString()).toBe(['node-a\t130\n', 'node-b\t125\n'][i]);
    }
    expect(await store.findTransaction('order-1')).toEqual(summary);
    expect(await eventsIn(store, { transactionId: 'order-1' })).toEqual(events);
    expect((await store.listLosses(undefined, undefined)).map(({ node, lost }) => [node, lost])).toEqual(
      expect.arrayContaining([
        ['node-a', 130],
        ['node-b', 125],
      ]),
    );
    expect(await store.unpin('order-1')).toBe(true);
    expect(await store.findTransaction('order-1')).toBeUndefined();
    // The same blocks as before are taken again.
    expect(await store.pin({ transactionId: 'a-3', beforeNs: 0n, nowNs: START })).toHaveLength(1);
    expect(await store.unpin('a-3')).toBe(true);
    expect(await store.pin({ transactionId: 'a-3', beforeNs: 0n, nowNs: START })).toHaveLength(1);
    expect((await shards[0]![0]!.sql('SELECT count() FROM kreplay.pinned_event')).toString()).toBe('60\n');
    await store.close();
  }, 180_000);
});
