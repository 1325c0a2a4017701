/** Tests what is particular to the tables of a fleet: rows of others, servers that end, and what is not served yet. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { encodeColumnLines } from '../../../../daemon/store/blocks/column_lines.ts';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../../daemon/store/fleet/fleet_store.ts';
import type { ScanRequest, Store } from '../../../../daemon/store/store.ts';
import { ACCOUNTS, type ClickHouseServer, endServers, startServer } from '../../../clickhouse/server.ts';
import { columnAnswer, plainEvent } from '../../column_answer.ts';
import { gathered } from '../../later.ts';
import { newFolder, type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { resultOf } from './both_stores.ts';
import { newFleet, shipAll } from './shipped.ts';

const SECOND = 1_000_000_000n;
const HOUR = 3600n * SECOND;
let server: ClickHouseServer;
let count = 0;
const stores: Store[] = [];

beforeAll(async () => {
  server = await startServer();
});
afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));
afterAll(endServers);

async function sent(rows: readonly Row[], on: ClickHouseServer = server): Promise<{ store: Store; fleet: Fleet }> {
  const fleet = await newFleet(on, `fleet_${++count}`);
  const store = createFleetStore(fleet);
  stores.push(store);
  await shipAll(fleet, recordingPath(recordedOn('node-a', rows)));
  return { store, fleet };
}

async function linesOf(store: Store, request: ScanRequest): Promise<string[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of store.scanJson(request)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString().split('\n').filter(Boolean);
}

const every = (total: number, more: (i: number) => Partial<Row> = () => ({})): Row[] =>
  Array.from({ length: total }, (_, i) => ({ at: START + BigInt(i) * SECOND, ...more(i) }) as Row);

describe('the store of a fleet', () => {
  test('leaves out events of types that a newer kreplay has, and pages are full nevertheless', async () => {
    const { store, fleet } = await sent(every(40));
    const { database } = fleet.connection;
    await server.sql(
      `INSERT INTO ${database}.event (timestamp_ns, recording, number, node, event_type)
SELECT timestamp_ns, recording, 1000 + number, node, 'net_send' FROM ${database}.event`,
    );
    for (const order of ['asc', 'desc'] as const) {
      const all = await linesOf(store, { filter: {}, order });
      expect(all.map((line) => JSON.parse(line).event_type)).toEqual(Array(40).fill('sys_write'));
      expect(await linesOf(store, { filter: {}, order, limit: 15 })).toEqual(all.slice(0, 15));
    }
  });

  test('counts the events of spans as the scan returns them, in whole minutes and in parts', async () => {
    const { store, fleet } = await sent(every(400));
    const { database } = fleet.connection;
    // A sender that was interrupted may have sent rows twice.
    await server.sql(`INSERT INTO ${database}.event SELECT * FROM ${database}.event`);
    const spanOf = (from: bigint, to: bigint, node = 'node-a') => ({
      node,
      fromNs: START + from * SECOND,
      toNs: START + to * SECOND,
    });
    for (const [from, to, count] of [
      [-100n, 1000n, 400],
      [10n, 300n, 290],
      [10n, 20n, 10],
      [60n, 120n, 60],
      [59n, 121n, 62],
      [5n, 5n, 0],
    ] as const)
      expect(await store.countEvents([spanOf(from, to), spanOf(0n, 400n, "node'b")])).toEqual([count, 0]);
    expect(await store.countEvents([])).toEqual([]);
  });

  test('does not know how many events there are if the server cannot count them', async () => {
    const { store, fleet } = await sent(every(400));
    const { database } = fleet.connection;
    await server.sql(`DROP TABLE ${database}.stat`);
    const span = { node: 'node-a', fromNs: START, toNs: START + 400n * SECOND };
    expect(await store.countEvents([span, { ...span, node: 'node-b' }])).toEqual([undefined, undefined]);
  });

  test('has no event before its segment has arrived', async () => {
    const { store, fleet } = await sent(every(3));
    await server.sql(`TRUNCATE TABLE ${fleet.connection.database}.segment`);
    expect(await linesOf(store, { filter: {}, order: 'asc' })).toEqual([]);
  });

  test('finds events that are years apart', async () => {
    const times = [0n, 5n, START - 20n * 365n * 24n * HOUR, START, 2n ** 63n - 1n];
    const { store } = await sent(times.map((at) => ({ at })));
    const found = await linesOf(store, { filter: {}, order: 'asc' });
    expect(found.map((line) => BigInt(/"timestamp_ns":(\d+)/.exec(line)![1]!))).toEqual(times);
    expect(await linesOf(store, { filter: {}, order: 'desc' })).toEqual(found.toReversed());
    expect(await linesOf(store, { filter: { fromNs: 1n, toNs: START }, order: 'desc', limit: 1 })).toEqual([found[2]]);
  });

  test('writes the columns of events', async () => {
    const rows = every(9000, (i) => ({
      ...{ at: START + BigInt(i), service: `s${i % 3}`, transaction: `t${i % 50}`, file: `/f${i % 7}` },
      ...(i % 4 === 0 && { type: 'block_io' as const, origins: [{ service: 'db', transaction: 't1', bytes: 5n }] }),
    }));
    const { store } = await sent(rows);
    const lines = await gathered(encodeColumnLines(store.scan({ filter: {}, order: 'asc' })));
    const { events } = columnAnswer(Buffer.concat([...lines, Buffer.from('{"coverage":{}}\n')]).toString());
    expect(events).toEqual((await linesOf(store, { filter: {}, order: 'asc' })).map(plainEvent));
    expect(events).toHaveLength(9000);
  });

  test('does not list a transaction that began long before the time that is asked for', async () => {
    const long = [-5n, 0n].map((hours) => ({ at: START + hours * HOUR, transaction: 'long' }));
    const { store } = await sent([...long, ...every(20, (i) => ({ transaction: `short-${i}` }))]);
    const request = { filter: { fromNs: START }, sort: 'recent', limit: 8 } as const;
    const ids: string[] = [];
    for (let after: Parameters<Store['listTransactions']>[0]['after'] | null; after !== null; ) {
      const page = await resultOf(store.listTransactions({ ...request, ...(after && { after }) }));
      ids.push(...page.transactions.map(({ transactionId }) => transactionId));
      after = page.next;
    }
    expect(ids).toEqual(Array.from({ length: 20 }, (_, i) => `short-${19 - i}`));
    expect(await store.findTransaction('long')).toMatchObject({ firstTimestampNs: START - 5n * HOUR, eventCount: 2 });
  });

  test('leaves a scan that is not read to its end', async () => {
    const { store } = await sent(every(9000));
    for (let i = 0; i < 20; i++)
      for await (const { block } of store.scan({ filter: {}, order: 'asc' })) if (block.rowCount > 0) break;
    expect(await linesOf(store, { filter: {}, order: 'desc', limit: 1 })).toHaveLength(1);
  });

  test('reads with an account that may only read', async () => {
    const { fleet, store } = await sent(every(30, (i) => ({ transaction: `t${i % 3}` })));
    const passwordFile = join(newFolder(), 'password');
    writeFileSync(passwordFile, ACCOUNTS.reader, { mode: 0o600 });
    const { database } = fleet.connection;
    const connection = connect({ urls: [server.url], database, user: 'reader', passwordFile });
    const reader = createFleetStore({ ...fleet, connection });
    stores.push(reader);
    const request = { filter: { services: ['shop'] }, order: 'asc' } as const;
    expect(await linesOf(reader, request)).toEqual(await linesOf(store, request));
    const list = { filter: {}, sort: 'slowest', limit: 2 } as const;
    expect(await resultOf(reader.listTransactions(list))).toEqual(await resultOf(store.listTransactions(list)));
    expect([await reader.listServices(), await reader.listNodes()]).toEqual([['shop'], ['node-a']]);
  });

  test('answers with nothing while nothing has arrived', async () => {
    const store = createFleetStore(await newFleet(server, `fleet_${++count}`));
    stores.push(store);
    const position = await store.startFollowing({}, 0n, undefined);
    expect(store.parseFollowPosition(position.id)?.id).toBe(position.id);
    expect(await store.pin({ transactionId: 'x', beforeNs: 0n, nowNs: 0n })).toBeUndefined();
    expect(await store.listPins()).toEqual([]);
    expect(await linesOf(store, { filter: {}, order: 'asc' })).toEqual([]);
    expect(await resultOf(store.listTransactions({ filter: {}, sort: 'recent', limit: 5 }))).toEqual({
      ...{ transactions: [], reach: null, next: null },
    });
  });

  test('reports a server that has ended, whatever is asked', async () => {
    const other = await startServer();
    const { store } = await sent(every(10), other);
    await other.kill();
    const unavailable = expect.objectContaining({
      code: 'recording_unavailable',
      message: expect.stringContaining('127.0.0.1'),
    });
    const filter = {};
    const questions: (() => Promise<unknown>)[] = [
      () => store.scan({ filter, order: 'asc' }).next(),
      () => store.scanJson({ filter, order: 'asc' }).next(),
      () => resultOf(store.computeStats({ filter, bucketNs: undefined, groupBy: [] })),
      () => resultOf(store.listTransactions({ filter, sort: 'recent', limit: 1 })),
      () => store.findEvent('0123456789abcdef-0000000000000001'),
      () => store.findTransaction('x'),
      () => store.listServices(),
      () => store.listNodes(),
      () => store.listLosses(undefined, undefined),
      () => store.listSpans(),
    ];
    for (const ask of questions) await expect(ask()).rejects.toEqual(unavailable);
  });
});
