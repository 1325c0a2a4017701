/** Tests lists of transactions against a plain summary of the rows, over several files and while they grow. */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { formatMilliseconds } from '../../../../daemon/base/duration.ts';
import { parseJson } from '../../../../daemon/base/exact_json.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../../repeats.ts';
import {
  appendRows,
  type BlockRow,
  newFolder,
  newWriter,
  type Row,
  recorded,
  recordingPath,
  START,
} from '../../recorded.ts';
import { type Served, served } from '../../served.ts';

const MS = 1_000_000n;
const IDS = ['tx-1', 'tx-2', 'tx 3/ü', 'TX_4%', 'tx-5'];
/** Parts of ids, with what SQL would take for wildcards and with other cases. */
const PARTS = ['tx', 'Tx-', '-', '_', '%', 't%', 'tx-_', '/ü', '/Ü', '4', ' ', "'", 'none', 'tx-1 and more'];
const SERVICES = ['shop', 'cart', 'naïve 服务'];
const NODES = ['node-0', 'node-1', 'node-2'];

interface Listed {
  transaction_id: string;
  first_timestamp_ns: bigint;
  last_end_ns: bigint;
  duration_ns: bigint;
  written_back: { count: number; bytes: number; last_end_ns: bigint | null };
  event_count: number;
  error_count: number;
  services: string[];
  nodes: string[];
}

const owner = fc.record({ transaction: fc.constantFrom(...IDS), service: fc.constantFrom(...SERVICES) });
const row: fc.Arbitrary<Row> = fc
  .record({
    at: fc.integer({ min: 0, max: 20 }).map((ms) => START + BigInt(ms) * MS),
    duration: fc.integer({ min: 0, max: 9 }).map((ms) => BigInt(ms) * MS),
    owner,
    origins: fc.array(owner, { maxLength: 2 }),
    failed: fc.boolean(),
    isBlock: fc.boolean(),
    isWrittenBack: fc.boolean(),
  })
  .map(({ owner: own, origins, failed, isBlock, isWrittenBack, ...common }): Row => {
    const write = { ...common, ...own, result: failed ? -5n : 1n, ...(isWrittenBack && { source: 'origin' as const }) };
    return isBlock
      ? { ...write, type: 'block_io', origins: origins.map((one, i) => ({ ...one, bytes: BigInt(1 + i) })) }
      : write;
  });

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });
const offset = fc.integer({ min: -1, max: 22 }).map((ms) => START + BigInt(ms) * MS);
const query = fc.record({
  service: optional(fc.subarray([...SERVICES, 'none'], { minLength: 1 })),
  node: optional(fc.subarray(NODES, { minLength: 1 })),
  from: optional(offset),
  to: optional(offset),
  min_duration_ms: optional(fc.integer({ min: 0, max: 30 }).map((ms) => BigInt(ms) * MS)),
  has_error: optional(fc.boolean()),
  sort: optional(fc.constantFrom('recent', 'slowest')),
  q: optional(fc.constantFrom(...PARTS)),
});
type Asked = typeof query extends fc.Arbitrary<infer T> ? T : never;

function ownersOf(one: Row) {
  return [one, ...((one as BlockRow).origins ?? [])].filter(({ transaction }) => transaction !== undefined);
}

/** Summary of each transaction over the rows of all nodes. */
function summedUp(rowsOfNodes: readonly (readonly Row[])[]): Listed[] {
  return IDS.flatMap((id) => {
    const own = rowsOfNodes.flatMap((rows, node) =>
      rows
        .filter((one) => ownersOf(one).some(({ transaction }) => transaction === id))
        .map((one) => ({ one, node: NODES[node]! })),
    );
    if (own.length === 0) return [];
    const isWaitedFor = (one: Row) => one.transaction === id && one.source !== 'origin';
    const lastEnd = (rows: readonly Row[]) =>
      rows.map((one) => one.at + one.duration!).reduce((a, b) => (a > b ? a : b), 0n);
    const waitedFor = own.map(({ one }) => one).filter(isWaitedFor);
    const writtenBack = own.map(({ one }) => one).filter((one) => !isWaitedFor(one));
    const bytes = writtenBack
      .flatMap((one) => (one as BlockRow).origins ?? [])
      .filter(({ transaction }) => transaction === id)
      .reduce((sum, one) => sum + Number(one.bytes), 0);
    const starts = (waitedFor.length > 0 ? waitedFor : writtenBack).map(({ at }) => at!);
    const first = starts.reduce((a, b) => (a < b ? a : b));
    const end = waitedFor.length > 0 ? lastEnd(waitedFor) : first;
    const services = own.flatMap(({ one }) => ownersOf(one).filter(({ transaction }) => transaction === id));
    return {
      transaction_id: id,
      first_timestamp_ns: first,
      last_end_ns: end,
      duration_ns: end - first,
      written_back: {
        count: writtenBack.length,
        bytes,
        last_end_ns: writtenBack.length > 0 ? lastEnd(writtenBack) : null,
      },
      event_count: own.length,
      error_count: own.filter(({ one }) => one.result! < 0n).length,
      services: [...new Set(services.map(({ service }) => service!))].sort(),
      nodes: [...new Set(own.map(({ node }) => node))].sort(),
    };
  });
}

const lowered = (text: string) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

function matches(one: Listed, asked: Asked): boolean {
  return (
    (!asked.service || asked.service.some((name) => one.services.includes(name))) &&
    (!asked.node || asked.node.some((name) => one.nodes.includes(name))) &&
    (asked.from === undefined || one.first_timestamp_ns >= asked.from) &&
    (asked.to === undefined || one.first_timestamp_ns < asked.to) &&
    (asked.min_duration_ms === undefined || one.duration_ns >= asked.min_duration_ms) &&
    (asked.has_error === undefined || one.error_count > 0 === asked.has_error) &&
    (asked.q === undefined || lowered(one.transaction_id).includes(lowered(asked.q)))
  );
}

function urlOf(asked: Asked): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    if (value === undefined) continue;
    if (Array.isArray(value)) for (const item of value) parameters.append(name, item);
    else parameters.set(name, name.endsWith('_ms') ? formatMilliseconds(value as bigint) : String(value));
  }
  return parameters.toString();
}

/** Numbers are bigints where a double would round. */
async function pageOf(
  daemon: Served,
  parameters: string,
): Promise<{ transactions: Listed[]; next_cursor: string | null }> {
  const { status, text } = await daemon.get(`/api/transactions?${parameters}`);
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
  return parseJson(text) as never;
}

async function listed(daemon: Served, parameters: string, limit: number): Promise<Listed[]> {
  const all: Listed[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await pageOf(daemon, `${parameters}&limit=${limit}${cursor === '' ? '' : `&cursor=${cursor}`}`);
    expect(page.transactions.length).toBeLessThanOrEqual(limit);
    all.push(...page.transactions);
    cursor = page.next_cursor;
  }
  return all;
}

const big = (one: Listed) => ({
  ...one,
  first_timestamp_ns: BigInt(one.first_timestamp_ns),
  last_end_ns: BigInt(one.last_end_ns),
  duration_ns: BigInt(one.duration_ns),
  written_back: {
    ...one.written_back,
    last_end_ns: one.written_back.last_end_ns === null ? null : BigInt(one.written_back.last_end_ns),
  },
});

async function expectListed(daemon: Served, rows: Row[][], asked: Asked, limit: number): Promise<void> {
  fc.pre(asked.from === undefined || asked.to === undefined || asked.from <= asked.to);
  const found = (await listed(daemon, urlOf(asked), limit)).map(big);
  const expected = summedUp(rows).filter((one) => matches(one, asked));
  const byId = (a: Listed, b: Listed) => (a.transaction_id < b.transaction_id ? -1 : 1);
  expect(found.toSorted(byId)).toMatchObject(expected.toSorted(byId));
  expect(found.length).toBe(expected.length);
  const values = found.map((one) => (asked.sort === 'slowest' ? one.duration_ns : one.first_timestamp_ns));
  expect(values).toEqual(values.toSorted((a, b) => (a > b ? -1 : 1)));
}

test('any query in pages of any size filters and sorts all transactions', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ rows: fc.array(row, { maxLength: 12 }), later: fc.array(row, { maxLength: 6 }) }), {
        minLength: 1,
        maxLength: 3,
      }),
      fc.array(fc.tuple(query, fc.integer({ min: 1, max: 6 })), { minLength: 4, maxLength: 4 }),
      async (nodes, asked) => {
        const writers = nodes.map(({ rows }, node) => {
          const folder = newFolder();
          const writer = newWriter(folder, NODES[node]);
          appendRows(writer, rows, 3);
          return { writer, path: recordingPath(folder) };
        });
        // The copy lacks what is recorded later, and therefore adds nothing.
        const copy = join(newFolder(), 'copy.kreplay');
        new Database(writers[0]!.path).exec(`VACUUM INTO '${copy}'`).close();
        const daemon = await served(openRecordingStore(undefined, [copy, ...writers.map(({ path }) => path)]));
        for (const [one, limit] of asked)
          await expectListed(
            daemon,
            nodes.map(({ rows }) => rows),
            one,
            limit,
          );
        for (const [node, { writer }] of writers.entries()) appendRows(writer, nodes[node]!.later, 2);
        const rows = nodes.map((node) => [...node.rows, ...node.later]);
        for (const [one, limit] of asked) await expectListed(daemon, rows, one, limit);
        for (const { writer } of writers) writer.close();
        for (const [one, limit] of asked) await expectListed(daemon, rows, one, limit);
        await daemon.close();
      },
    ),
    { numRuns: times(6) },
  );
}, 120_000);

test('an entry agrees with the transaction itself', async () => {
  const rows = IDS.map((transaction, i) => ({ at: START + BigInt(i), transaction, trace: '0'.repeat(31) + i }));
  const daemon = await served(recorded(rows));
  await daemon.get('/api/transactions/tx-1/pin', { method: 'POST' });
  const { json } = await daemon.get('/api/transactions');
  expect(json.transactions.map((one: Listed) => one.transaction_id)).toEqual(IDS.toReversed());
  for (const one of json.transactions) {
    const { json: itself } = await daemon.get(`/api/transactions/${encodeURIComponent(one.transaction_id)}`);
    expect(itself).toEqual({ ...one, coverage: json.coverage });
  }
  expect(json.next_cursor).toBeNull();
  expect(json.coverage).toMatchObject({ complete: true, lost: 0, losses: [] });
});

test('pages continue after new transactions, retention and a restart', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const rows = Array.from({ length: 50 }, (_, i) => ({ at: START + BigInt(i), transaction: `tx-${i}` }));
  appendRows(writer, rows, 10);
  let daemon = await served(folder);
  const first = await pageOf(daemon, 'limit=20');
  appendRows(writer, [{ at: START + 99n, transaction: 'newest' }]);
  writer.close();
  const database = new Database(recordingPath(folder));
  database.exec("DELETE FROM transaction_summary WHERE transaction_id IN ('tx-29', 'tx-0', 'tx-25')");
  database.close();
  const second = await pageOf(daemon, `limit=20&cursor=${first.next_cursor}`);
  await daemon.close();
  daemon = await served(folder);
  const third = await pageOf(daemon, `limit=20&cursor=${second.next_cursor}`);
  const ids = [first, second, third].flatMap(({ transactions }) => transactions.map((one) => one.transaction_id));
  const expected = rows.map(({ transaction }) => transaction).toReversed();
  expect(ids).toEqual(expected.filter((id) => !['tx-29', 'tx-0', 'tx-25'].includes(id)));
  expect(third.next_cursor).toBeNull();
});

test('transactions that continue while a client pages are missed only by slowest, and repeated only by recent', async () => {
  const started = fc.array(fc.record({ at: fc.nat(20), duration: fc.nat(9) }), { minLength: 2, maxLength: 12 });
  /** Recorded between two pages: events of existing transactions, some from before their start. */
  const later = fc.array(fc.record({ of: fc.nat(11), at: fc.nat(40), duration: fc.nat(30) }), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(
      started,
      fc.array(later, { maxLength: 8 }),
      fc.integer({ min: 1, max: 4 }),
      async (first, more, limit) => {
        for (const sort of ['recent', 'slowest']) {
          const folder = newFolder();
          const writer = newWriter(folder);
          const rowOf = (one: { at: number; duration: number }, i: number): Row => ({
            at: START + BigInt(one.at) * MS,
            duration: BigInt(one.duration) * MS,
            transaction: `tx-${i % first.length}`,
          });
          appendRows(writer, first.map(rowOf));
          const daemon = await served(folder);
          const ids: string[] = [];
          const changed = new Set<string>();
          for (let cursor: string | null = '', page = 0; cursor !== null; page++) {
            const answer = await pageOf(daemon, `sort=${sort}&limit=${limit}${cursor && `&cursor=${cursor}`}`);
            ids.push(...answer.transactions.map((one) => one.transaction_id));
            cursor = answer.next_cursor;
            const rows = (more[page] ?? []).map((one) => rowOf(one, one.of));
            appendRows(writer, rows);
            for (const { transaction } of rows) changed.add(transaction!);
          }
          writer.close();
          await daemon.close();
          for (let i = 0; i < first.length; i++) {
            const times = ids.filter((id) => id === `tx-${i}`).length;
            if (!changed.has(`tx-${i}`)) expect(times).toBe(1);
            else if (sort === 'slowest') expect(times).toBeLessThanOrEqual(1);
            else expect(times).toBeGreaterThanOrEqual(1);
          }
        }
      },
    ),
    { numRuns: times(6) },
  );
}, 120_000);

test('a cursor of another list is refused', async () => {
  const daemon = await served(recorded(IDS.map((transaction) => ({ at: START, transaction }))));
  const { next_cursor: cursor } = await pageOf(daemon, 'limit=2');
  const { json: events } = await daemon.get('/api/events?limit=2');
  for (const [parameters, code] of [
    [`limit=3&cursor=${cursor}`, 'cursor_mismatch'],
    [`limit=2&sort=slowest&cursor=${cursor}`, 'cursor_mismatch'],
    [`limit=2&cursor=${events.next_cursor}`, 'cursor_mismatch'],
    ['cursor=x', 'invalid_cursor'],
  ]) {
    const { status, json } = await daemon.get(`/api/transactions?${parameters}`);
    expect([parameters, status, json.code]).toEqual([parameters, 400, code]);
  }
});

test.each([
  'limit=0',
  'limit=1001',
  'sort=newest',
  'has_error=1',
  'min_duration_ms=x',
  'service=',
  'from=tomorrow',
  'from=2&to=1',
  'transaction_id=tx-1',
])('%s is refused', async (parameters) => {
  const { status, json } = await (await served(recorded([]))).get(`/api/transactions?${parameters}`);
  expect([status, json.code]).toEqual([400, 'invalid_parameter']);
  expect(json.errors[0].parameter).toBe(parameters.split('=')[0]);
});

test('concurrent lists are each complete', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const rows = Array.from({ length: 5000 }, (_, i) => ({ at: START + BigInt(i), transaction: `tx-${i}` }));
  appendRows(writer, rows);
  const daemon = await served(folder);
  const lists = Array.from({ length: 8 }, (_, i) => {
    if (i === 4) appendRows(writer, [{ at: START, transaction: 'late' }]);
    return pageOf(daemon, `limit=1000&to=${START + 700n}`);
  });
  for (const { transactions } of await Promise.all(lists))
    expect(transactions.filter(({ transaction_id: id }) => id !== 'late').length).toBe(700);
  writer.close();
});
