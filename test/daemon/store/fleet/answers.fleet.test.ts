/** Tests what the questions of one answer share, and that it is not older than the answer; and how pages find their rows. */
import { ServerError } from '../../../../agent/clickhouse/connection/server_error.ts';
import type { Sql } from '../../../../agent/clickhouse/statements/sql.ts';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../../daemon/store/fleet/fleet_store.ts';
import type { ScanRequest, Store } from '../../../../daemon/store/store.ts';
import { countBursts, LISTED_BURSTS } from '../../../../daemon/store/transaction_bursts.ts';
import { type ClickHouseServer, endServers, startServer } from '../../../clickhouse/server.ts';
import { type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { resultOf } from './both_stores.ts';
import { newFleet, shipAll } from './shipped.ts';

const SECOND = 1_000_000_000n;
let server: ClickHouseServer;
let databases = 0;
const stores: Store[] = [];

beforeAll(async () => {
  server = await startServer();
});
afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));
afterAll(endServers);

/** A store that notes the texts of its statements. */
async function noted(rows: readonly Row[]): Promise<{ store: Store; fleet: Fleet; statements: string[] }> {
  const fleet = await newFleet(server, `fleet_${++databases}`);
  await shipAll(fleet, recordingPath(recordedOn('node-a', rows)));
  const statements: string[] = [];
  const { connection } = fleet;
  function select(statement: Sql, options?: Parameters<typeof connection.select>[1]) {
    statements.push(statement.text);
    return connection.select(statement, options);
  }
  const store = createFleetStore({ ...fleet, connection: { ...connection, select } });
  stores.push(store);
  return { store, fleet, statements };
}

async function timesOf(store: Store, request: ScanRequest): Promise<bigint[]> {
  const times: bigint[] = [];
  for await (const { block } of store.scan(request))
    times.push(...(block.columns.get('timestamp_ns') as BigUint64Array).subarray(0, block.rowCount));
  return times;
}

const ofTransaction = (transactionId: string): ScanRequest => ({ filter: { transactionId }, order: 'asc' });
const every = (total: number, more: (i: number) => Partial<Row>): Row[] =>
  Array.from({ length: total }, (_, i) => ({ at: START + BigInt(i) * SECOND, ...more(i) }) as Row);

describe('the questions of one answer', () => {
  test('ask for the rows of a transaction once, and get the same as others', async () => {
    const { store, statements } = await noted(every(20, (i) => ({ transaction: `t${i % 2}` })));
    const [times, summary] = [await timesOf(store, ofTransaction('t1')), await store.findTransaction('t1')];
    expect(times).toHaveLength(10);
    const askedById = () => statements.splice(0).filter((text) => text.includes('FROM `by_id`'));
    expect(askedById()).toHaveLength(2);
    const answering = store.createAnswerStore!();
    expect(await timesOf(answering, ofTransaction('t1'))).toEqual(times);
    expect(await answering.findTransaction('t1')).toEqual(summary);
    expect(askedById()).toHaveLength(1);
    const within: ScanRequest = { filter: { transactionId: 't1', toNs: START + 5n * SECOND }, order: 'desc' };
    expect(await timesOf(answering, within)).toEqual(await timesOf(store, within));
    expect(await answering.findTransaction('t0')).toEqual(await store.findTransaction('t0'));
    expect(await answering.findTransaction('none')).toBeUndefined();
  });

  test('are no older than the answer: the next one has what arrived meanwhile', async () => {
    const { store, fleet } = await noted(every(4, () => ({ transaction: 'grows' })));
    const before = store.createAnswerStore!();
    expect(await before.findTransaction('grows')).toMatchObject({ eventCount: 4, nodes: ['node-a'] });
    const more = every(3, (i) => ({ at: START + BigInt(100 + i) * SECOND, transaction: 'grows' }));
    await shipAll(fleet, recordingPath(recordedOn('node-b', more)));
    const after = store.createAnswerStore!();
    expect(await timesOf(after, ofTransaction('grows'))).toHaveLength(7);
    expect(await after.findTransaction('grows')).toMatchObject({ eventCount: 7, nodes: ['node-a', 'node-b'] });
    // Its events and its summary are of one moment.
    expect(await timesOf(before, ofTransaction('grows'))).toHaveLength(4);
    expect(await before.findTransaction('grows')).toMatchObject({ eventCount: 4 });
  });

  test('try again what has failed', async () => {
    const { store, fleet } = await noted(every(2, () => ({ transaction: 't' })));
    const { database } = fleet.connection;
    const answering = store.createAnswerStore!();
    await server.sql(`RENAME TABLE ${database}.by_id TO ${database}.away`);
    await expect(answering.findTransaction('t')).rejects.toThrow();
    await server.sql(`RENAME TABLE ${database}.away TO ${database}.by_id`);
    expect(await answering.findTransaction('t')).toMatchObject({ eventCount: 2 });
  });
});

test('an id that was used again is seen, on each node and in any order of arrival', async () => {
  const { store, fleet } = await noted([
    ...every(3, () => ({ transaction: 'again' })),
    ...every(90, () => ({ transaction: 'long' })),
  ]);
  const later = { at: START + 100n * SECOND, duration: SECOND / 2n, transaction: 'again' };
  await shipAll(fleet, recordingPath(recordedOn('node-b', [later, { ...later, at: later.at + SECOND / 2n }])));
  const { transactions } = await resultOf(store.listTransactions({ filter: {}, sort: 'slowest', limit: 5 }));
  const bursts = await resultOf(countBursts(store, transactions, LISTED_BURSTS));
  const found = new Map(transactions.map(({ transactionId }, i) => [transactionId, bursts[i]]));
  // Each of its calls lasts a microsecond, and they lie a second apart.
  expect(found.get('long')).toEqual({ count: 1, apartNs: 0n });
  expect(found.get('again')).toEqual({ count: 2, apartNs: 98n * SECOND - 1000n });
});

test('events too long for one block are read in smaller portions, each of them once', async () => {
  const { store, fleet } = await noted(every(5000, (i) => ({ at: START + BigInt(i >> 2) * SECOND })));
  const { connection } = fleet;
  const limits: number[] = [];
  /** As a server whose blocks have 2000 rows, of which more than one is too large. */
  async function* select(statement: Sql, options?: Parameters<typeof connection.select>[1]) {
    const limit = /^SELECT `timestamp_ns`.* LIMIT (\d+)$/s.exec(statement.text)?.[1];
    if (limit !== undefined) limits.push(Number(limit));
    if (Number(limit ?? 0) > 2000) {
      yield* connection.select({ ...statement, text: statement.text.replace(/LIMIT \d+$/, 'LIMIT 2000') }, options);
      throw new ServerError('too_large', 'repeat', 'a block is too large');
    }
    yield* connection.select(statement, options);
  }
  const reader = createFleetStore({ ...fleet, connection: { ...connection, select } });
  for (const order of ['asc', 'desc'] as const)
    expect(await timesOf(reader, { filter: {}, order })).toEqual(await timesOf(store, { filter: {}, order }));
  expect(Math.min(...limits)).toBe(1024);
  expect(Math.max(...limits)).toBe(65_536);
});

describe('a page of a filter', () => {
  const rare = (i: number): Partial<Row> => ({ service: i % 100 === 7 ? 'rare' : 'usual' });
  const filter = { services: ['rare'] };

  test('reads all columns of nothing but the time that it needs', async () => {
    const { store, statements } = await noted(every(1000, rare));
    const times = await timesOf(store, { filter, order: 'asc', limit: 2 });
    expect(times).toEqual([START + 7n * SECOND, START + 107n * SECOND]);
    const wide = statements.filter((text) => text.includes('`origin_bytes`'));
    expect(wide).toHaveLength(2);
    for (const [i, text] of wide.entries())
      expect(text).toContain(`timestamp_ns >= ${times[i]} AND timestamp_ns <= ${times[i]} `);
  });

  test.each(['asc', 'desc'] as const)(
    'has events of one time, whose number is that of the page or not (%s)',
    async (order) => {
      const { store } = await noted(every(60, (i) => ({ ...rare(i * 50 + 7), at: START + BigInt(i >> 3) * SECOND })));
      const all = await timesOf(store, { filter, order });
      expect(all).toHaveLength(30);
      for (const limit of [1, 3, 4, 5, 8, 29, 30, 31])
        expect(await timesOf(store, { filter, order, limit })).toEqual(all.slice(0, limit));
    },
  );
});
