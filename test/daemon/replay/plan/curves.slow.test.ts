/** Tests that curves which are read together are those of each transaction alone. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { createBundle } from '../../../../agent/recording/write/bundle.ts';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import { createPlannerThread } from '../../../../daemon/replay/plan/planner_thread.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { blockOf } from '../../../agent/recording/fixture.ts';
import { times } from '../../../repeats.ts';
import { type BlockRow, newFolder, type Row, recorded, recordedOn, recordingPath, START } from '../../recorded.ts';
import { curvesOf, readCurves, transactionsOf } from './read_curves.ts';

const MS = 1_000_000n;
const opened: Recordings[] = [];
afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

/** Counts the rows and the scans that the store is asked for. */
function storeOn(...paths: string[]) {
  const store = openRecordingStore(undefined, paths);
  opened.push(store);
  const read = { rows: 0, scans: 0 };
  const counting: Recordings = {
    ...store,
    *scan(request) {
      read.scans++;
      for (const scanned of store.scan(request)) {
        read.rows += scanned.block.rowCount;
        yield scanned;
      }
    },
  };
  return { store: counting, read };
}

type NodeRow = Row & { node: string };

const NAMES = Array.from({ length: 8 }, (_, n) => `tx-${n}`);

const planned = fc.record({
  gapNs: fc.oneof(fc.nat(1000), fc.constant(0)),
  durationNs: fc.oneof(fc.nat(50_000).map(BigInt), fc.constant(0n), fc.bigInt({ min: 2n ** 60n, max: 2n ** 61n })),
  tid: fc.nat(1),
  node: fc.constantFrom('node-a', 'node-b'),
  service: fc.constantFrom('web', 'db'),
  transaction: fc.option(fc.constantFrom(...NAMES), { nil: undefined }),
  kind: fc.constantFrom('write' as const, 'request' as const, 'written_back' as const),
  others: fc.subarray(NAMES, { maxLength: 4 }),
});

/** Write-back comes in any place, so much of it after the transaction's end; requests may carry data of many. */
const rowsOf = fc.array(planned, { minLength: 1, maxLength: 80 }).map((all) => {
  let at = START;
  return all.map(({ gapNs, durationNs, kind, others, transaction, ...common }): NodeRow => {
    at += BigInt(gapNs);
    const row = { ...common, at, duration: durationNs, ...(transaction !== undefined && { transaction }) };
    if (kind === 'write') return row;
    const origins: BlockRow['origins'] = others.map((other) => ({ transaction: other, bytes: 512n }));
    const isBack = kind === 'written_back' && transaction !== undefined;
    return { ...row, type: 'block_io', origins, ...(isBack && { source: 'origin' }) };
  });
});

test('curves that are read together are equal to those of what-if and of each alone', async () => {
  await fc.assert(
    fc.asyncProperty(
      rowsOf,
      fc.integer({ min: -50_000, max: 50_000 }),
      fc.boolean(),
      async (rows, offsetNs, isSome) => {
        const folders = [...Map.groupBy(rows, ({ node }) => node)].map(([node, own]) => recordedOn(node, own));
        const { store } = storeOn(...folders.map(recordingPath));
        const transactions = transactionsOf(store);
        const only = isSome ? { eventTypes: ['block_io'] } : {};
        const aligned: Record<string, number> = store.nodes().includes('node-b') ? { 'node-b': offsetNs } : {};
        for (const clockOffsetsNs of [{}, aligned]) {
          const together = await readCurves(store, transactions, only, clockOffsetsNs);
          for (const [i, transaction] of transactions.entries()) {
            const asked = { transactionId: transaction.transactionId, extraLatencyNs: 0n, timeoutNs: null, limit: 0 };
            const told = await createPlanner(store).whatIf({ ...asked, only, clockOffsetsNs });
            expect(together[i]).toEqual(told.curve);
            expect(await readCurves(store, [transaction], only, clockOffsetsNs)).toEqual([together[i]]);
          }
        }
        store.close();
      },
    ),
    { numRuns: times(12) },
  );
});

/** Transactions of two writes, with many events of no transaction between one and the next. */
function sparse(count: number, between: number): Row[] {
  return Array.from({ length: count }, (_, n): Row[] => {
    const at = START + BigInt(n) * MS;
    const own = { transaction: `tx-${n}`, duration: 1000n };
    const others = Array.from({ length: between }, (_, i): Row => ({ at: at + 5000n + BigInt(i) }));
    return [{ ...own, at }, { ...own, at: at + 2000n + BigInt(n) }, ...others];
  }).flat();
}

test('transactions side by side are read in one scan, and those far apart each alone', async () => {
  const near = storeOn(recordingPath(recorded(sparse(60, 5))));
  const curves = await curvesOf(near.store, {}, {});
  expect(curves).toEqual(
    Array.from({ length: 60 }, (_, i) => [`tx-${59 - i}`, [{ events: 2n, endNs: 3000n + BigInt(59 - i) }]]),
  );
  expect(near.read.scans).toBe(1);
  const far = storeOn(recordingPath(recorded(sparse(24, 1000))));
  expect(await curvesOf(far.store, {}, {})).toEqual(curves.slice(-24));
  // What was read together until it was too much is not read again.
  expect(far.read.scans).toBeGreaterThan(10);
  expect(far.read.scans).toBeLessThan(24);
  expect(far.read.rows).toBeLessThan(24 * 1000);
});

test('one transaction that lasts much longer than the others is read alone', async () => {
  const slow = { transaction: 'slow', duration: 1n };
  const others = Array.from({ length: 30_000 }, (_, i): Row => ({ at: START + 10n * MS + BigInt(i) * 1000n }));
  const rows = [{ ...slow, at: START }, ...sparse(10, 1000), ...others, { ...slow, at: START + 39n * MS }];
  const { store, read } = storeOn(recordingPath(recorded(rows)));
  const curves = new Map(await curvesOf(store, {}, {}));
  expect(curves.size).toBe(11);
  expect(curves.get('slow')).toEqual([{ events: 2n, endNs: 39n * MS + 1n }]);
  expect(read.rows).toBeLessThan(20_000);
});

/** A file with these events of a recording, all of the transaction `tx-2`. */
function partOf(recordingId: string, numbers: readonly number[]): string {
  const path = join(newFolder(), 'part.kreplay');
  const origin = { node: 'test-node', bootId: 'boot', machineId: 'machine', createdNs: START };
  const bundle = createBundle({ ...origin, path, recordingId });
  const context = bundle.contextId({ transactionId: 'tx-2', traceId: null, spanId: null });
  const rows = numbers.map((number) => ({
    ...{ event_type: 'sys_write' as const, timestamp_ns: START + BigInt(number) * MS, duration_ns: 7n, tid: 1 },
    ...{ service: bundle.nameId('shop'), comm: bundle.nameId('node') },
    ...{ context, context_source: 1, context_quality: 1 },
  }));
  bundle.append({ ...blockOf(rows), numbers: BigUint64Array.from(numbers, BigInt) });
  bundle.close();
  return path;
}

test('files with different parts of a transaction give one curve', async () => {
  const database = new Database(recordingPath(recorded([{ at: START }])), { readonly: true });
  const recordingId = database.prepare("SELECT value FROM meta WHERE key = 'recording_id'").pluck().get() as string;
  database.close();
  const { store } = storeOn(partOf(recordingId, [1, 2, 3]), partOf(recordingId, [4, 5]));
  const asked = { transactionId: 'tx-2', extraLatencyNs: 0n, timeoutNs: null, limit: 0 };
  const { curve } = await createPlanner(store).whatIf({ ...asked, only: {}, clockOffsetsNs: {} });
  expect(curve).toEqual([{ events: 5n, endNs: 4n * MS + 7n }]);
  expect(await curvesOf(store, {}, {})).toEqual([['tx-2', curve]]);
});

test('a thread abandons what its caller does not wait for, and answers others', async () => {
  const folder = recorded(sparse(300, 10));
  const path = join(newFolder(), 'copy.kreplay');
  copyFileSync(recordingPath(folder), path);
  // With a copy each transaction is read alone, in many steps.
  const recordings = [recordingPath(folder), path];
  const { store } = storeOn(...recordings);
  const planner = createPlannerThread({ data: undefined, recordings });
  const transactions = transactionsOf(store);
  const [leaving, staying] = [new AbortController(), new AbortController()];
  const abandoned = planner.curves({ transactions, only: {}, clockOffsetsNs: {} }, leaving.signal);
  const some = transactions.slice(0, 3);
  const other = planner.curves({ transactions: some, only: {}, clockOffsetsNs: {} }, staying.signal);
  leaving.abort();
  await expect(abandoned).rejects.toThrow('abort');
  expect(await other).toEqual(await readCurves(store, some));
  await planner.close();
});
