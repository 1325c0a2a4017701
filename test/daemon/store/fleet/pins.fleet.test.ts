/** Tests that what a pin keeps of a fleet stays when its hours are dropped, is read once, and goes with the pin. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { dropPartition } from '../../../../agent/clickhouse/tables/ddl.ts';
import { REMEMBERED_MS_MAX, raiseOldest } from '../../../../agent/clickhouse/tables/oldest.ts';
import { createFleet, type Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../../daemon/store/fleet/fleet_store.ts';
import type { Store } from '../../../../daemon/store/store.ts';
import { ACCOUNTS, type ClickHouseServer, endServers, startServer } from '../../../clickhouse/server.ts';
import { countAt } from '../../../ship/centre.ts';
import { newFolder, recordedOn, recordingPath, START } from '../../recorded.ts';
import { resultOf } from './both_stores.ts';
import { newFleet, shipAll } from './shipped.ts';
import { eventsIn, HOUR, hourOf, ORDER_START, order, SECOND, TRACE, twoNodes } from './two_nodes.ts';

let server: ClickHouseServer;
let fleet: Fleet;
let store: Store;
let databases = 0;

beforeAll(async () => {
  server = await startServer();
});
beforeEach(async () => {
  fleet = await newFleet(server, `fleet_${++databases}`);
  for (const path of twoNodes()) await shipAll(fleet, path);
  store = createFleetStore(fleet);
});
afterEach(() => store?.close());
afterAll(endServers);

const pin = (beforeNs = 120n * SECOND, nowNs = START + 5n * HOUR) =>
  store.pin({ transactionId: 'order-1', beforeNs, nowNs });

/** Drops the first hours of all tables but `segment`, and the day of none. */
async function dropHours(count: bigint): Promise<void> {
  await raiseOldest(fleet.connection, START + count * HOUR, START);
  await sleep(REMEMBERED_MS_MAX);
  for (const table of ['event', 'transaction', 'stat', 'name'])
    for (let i = 0n; i < count; i++) await fleet.connection.run(dropPartition(table, hourOf(START) + i));
}

const ofOrder = { transactionId: 'order-1' };

describe('a pin', () => {
  test('is listed for each node, keeps its first time, and grows', async () => {
    expect(await store.listPins()).toEqual([]);
    const own = { transactionId: 'order-1', fromNs: ORDER_START - 120n * SECOND, pinnedNs: START + 5n * HOUR };
    const both = [
      { ...own, node: 'node-a' },
      { ...own, node: 'node-b' },
    ];
    expect(await pin()).toEqual(both);
    expect(await pin(60n * SECOND, START + 6n * HOUR)).toEqual(both);
    const longer = both.map((one) => ({ ...one, fromNs: ORDER_START - 3000n * SECOND }));
    expect(await pin(3000n * SECOND)).toEqual(longer);
    expect(await store.listPins('order-1')).toEqual(longer);
    expect(await store.listPins('a-1')).toEqual([]);
    expect(await store.pin({ transactionId: 'not there', beforeNs: 0n, nowNs: 1n })).toBeUndefined();
  });

  test('changes no answer as long as nothing is dropped', async () => {
    const before = await eventsIn(store);
    await pin();
    expect(await eventsIn(store)).toEqual(before);
  });

  test('keeps transaction and events when their hours are dropped, and goes when it is unpinned', async () => {
    const before = {
      transaction: await store.findTransaction('order-1'),
      events: await eventsIn(store, ofOrder),
      trace: await eventsIn(store, { traceId: TRACE }),
      window: await eventsIn(store, { fromNs: ORDER_START - 120n * SECOND, toNs: ORDER_START }),
      list: await resultOf(store.listTransactions({ filter: { services: ['pay'] }, sort: 'recent', limit: 5 })),
    };
    expect([before.events.length, before.window.length]).toEqual([15, 4]);
    await pin();
    await dropHours(2n);
    const kept = {
      transaction: await store.findTransaction('order-1'),
      events: await eventsIn(store, ofOrder),
      trace: await eventsIn(store, { traceId: TRACE }),
      window: await eventsIn(store, { fromNs: ORDER_START - 120n * SECOND, toNs: ORDER_START }),
      list: await resultOf(store.listTransactions({ filter: { services: ['pay'] }, sort: 'recent', limit: 5 })),
    };
    expect(kept).toEqual(before);
    expect(await store.findTransaction('a-1')).toBeUndefined();
    expect(await store.listServices()).toEqual(['pay', 'shop']);
    const ids = before.events.map((line) => JSON.parse(line).event_id as string);
    for (const id of ids) expect((await store.findEvent(id))?.event_id).toBe(id);
    const all = await eventsIn(store);
    expect(all).toHaveLength(15 + 4 + 240);
    expect(await eventsIn(store, { toNs: START + 2n * HOUR })).toEqual(all.slice(0, 19));
    const listed = await resultOf(store.listTransactions({ filter: {}, sort: 'recent', limit: 50 }));
    const known = listed.transactions.map(({ transactionId }) => transactionId);
    expect(known.sort()).toEqual(['a-2', 'a-3', 'b-2', 'b-3', 'order-1']);

    expect(await store.unpin('order-1')).toBe(true);
    expect(await store.findTransaction('order-1')).toBeUndefined();
    expect(await eventsIn(store)).toHaveLength(240);
    expect(await store.findEvent(ids[0]!)).toBeUndefined();
    expect(await store.unpin('order-1')).toBe(false);
    expect(await store.listPins()).toEqual([]);
    for (const table of ['pin', 'pinned_event', 'pinned_by_id', 'pinned_transaction'])
      expect(await countAt(server, `SELECT count() FROM ${fleet.connection.database}.${table}`)).toBe(0);
  });

  test('does not double what is in dropped hours because it came late', async () => {
    await pin();
    await dropHours(2n);
    const late = recordedOn('node-c', order('a', 3, ORDER_START + 60n * SECOND));
    await shipAll(fleet, recordingPath(late));
    for (const path of twoNodes()) await shipAll(fleet, path);
    await pin();
    // The recordings of the nodes are new ones: each event is there as often as it was recorded.
    expect(await eventsIn(store, ofOrder)).toHaveLength(15 + 3 + 15);
    expect((await store.listPins()).map(({ node }) => node)).toEqual(['node-a', 'node-b', 'node-c']);
  });

  test('is refused when there is no room', async () => {
    const small = (limits: object) =>
      createFleetStore(fleet, { pinLimits: { pinsMax: 1000, eventsMax: 1_000_000, ...limits } });
    const request = { transactionId: 'order-1', beforeNs: 0n, nowNs: START };
    await expect(small({ eventsMax: 14 }).pin(request)).rejects.toMatchObject({ code: 'pins_full' });
    expect(await small({ eventsMax: 15, pinsMax: 1 }).pin(request)).toHaveLength(2);
    await expect(small({ pinsMax: 1 }).pin({ ...request, transactionId: 'a-1' })).rejects.toMatchObject({
      code: 'pins_full',
    });
    expect(await small({ pinsMax: 1 }).pin(request)).toHaveLength(2);
  });

  test('needs an account that may write', async () => {
    const about = { bucketNs: fleet.bucketNs, isCluster: false };
    const passwordFile = join(newFolder(), 'reader');
    writeFileSync(passwordFile, ACCOUNTS.reader, { mode: 0o600 });
    const { database } = fleet.connection;
    const reader = () => connect({ urls: [server.url], database, user: 'reader', passwordFile });
    const request = { transactionId: 'order-1', beforeNs: 0n, nowNs: START };
    const reading = createFleetStore(createFleet(reader(), about));
    await expect(reading.pin(request)).rejects.toMatchObject({
      code: 'recording_not_writable',
      message: expect.stringContaining('fleet-pin-user'),
    });
    await reading.close();
    const both = createFleetStore(createFleet(reader(), about, connect({ urls: [server.url], database })));
    expect(await both.pin(request)).toHaveLength(2);
    expect(await both.unpin('order-1')).toBe(true);
    await both.close();
  });
});
