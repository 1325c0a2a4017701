/** Tests curves against what-if: at every latency both must give the same duration. */
import fc from 'fast-check';
import {
  addLine,
  type Curve,
  type CurveLine,
  endWith,
  mergeCurveLines,
} from '../../../../daemon/replay/plan/curves.ts';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { times } from '../../../repeats.ts';
import { type BlockRow, type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { curvesOf, readCurves, transactionsOf } from './read_curves.ts';

const opened: Recordings[] = [];
afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

type NodeRow = Row & { node: string };

function storeOf(rows: readonly NodeRow[]): Recordings {
  const folders = [...Map.groupBy(rows, ({ node }) => node)].map(([node, own]) => recordedOn(node, own));
  const store = openRecordingStore(undefined, folders.map(recordingPath));
  opened.push(store);
  return store;
}

const TRANSACTIONS = ['tx-1', 'tx-2', 'tx-3'];

const planned = fc.record({
  gapNs: fc.oneof(fc.nat(1000), fc.constant(0)),
  durationNs: fc.oneof(fc.nat(50_000).map(BigInt), fc.constant(0n), fc.bigInt({ min: 2n ** 60n, max: 2n ** 61n })),
  tid: fc.nat(2),
  node: fc.constantFrom('node-a', 'node-b'),
  service: fc.constantFrom('web', 'db'),
  transaction: fc.constantFrom(...TRANSACTIONS),
  kind: fc.constantFrom('write' as const, 'write' as const, 'request' as const, 'written_back' as const),
  others: fc.subarray(TRANSACTIONS),
});

const rowsOf = fc.array(planned, { minLength: 1, maxLength: 60 }).map((all) => {
  let at = START;
  return all.map(({ gapNs, durationNs, kind, others, transaction, ...common }): NodeRow => {
    at += BigInt(gapNs);
    const row = { ...common, at, duration: durationNs };
    if (kind === 'write') return { ...row, transaction };
    const origins: BlockRow['origins'] = others.map((other) => ({ transaction: other, bytes: 512n }));
    if (kind === 'request') return { ...row, type: 'block_io', transaction, origins };
    return { ...row, type: 'block_io', transaction, source: 'origin', origins };
  });
});

const LATENCIES = fc.array(fc.oneof(fc.bigInt(0n, 100_000n), fc.bigInt(0n, 3_600_000_000_000n)), {
  minLength: 3,
  maxLength: 5,
});

const settings = fc.record({
  offsetNs: fc.oneof(fc.constant(0), fc.integer({ min: -50_000, max: 50_000 })),
  only: fc.record(
    {
      eventTypes: fc.constantFrom(['sys_write'], ['block_io'], ['sys_write', 'block_io']),
      services: fc.constantFrom(['web'], ['db'], ['none']),
      nodes: fc.constantFrom(['node-a'], ['node-b']),
    },
    { requiredKeys: [] },
  ),
  latencies: LATENCIES,
});

/** The smallest latency with which the deadline is missed, as the API describes it. */
function smallestIn(curve: Curve, timeoutNs: bigint): bigint | null {
  const needed = curve.flatMap(({ events, endNs }) =>
    endNs > timeoutNs ? [0n] : events > 0n ? [(timeoutNs - endNs) / events + 1n] : [],
  );
  return needed.reduce<bigint | null>((least, ns) => (least === null || ns < least ? ns : least), null);
}

test('a curve gives what what-if gives for each transaction, at every latency', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, settings, async (rows, { offsetNs, only, latencies }) => {
      const store = storeOf(rows);
      const planner = createPlanner(store);
      const clockOffsetsNs = Object.fromEntries(
        store.nodes().flatMap((node) => (node === 'node-b' ? [[node, offsetNs]] : [])),
      );
      const curves = await curvesOf(store, only, clockOffsetsNs);
      expect(curves.length).toBeGreaterThan(0);
      for (const [transactionId, curve] of curves) {
        for (const [i, extraLatencyNs] of latencies.entries()) {
          const timeoutNs = endWith(curve, latencies[(i + 1) % latencies.length]!) + 1n;
          const request = { transactionId, extraLatencyNs, timeoutNs, clockOffsetsNs, only, limit: 0 };
          const told = await planner.whatIf(request);
          expect(endWith(curve, extraLatencyNs)).toBe(told.durationNs);
          expect(smallestIn(curve, timeoutNs)).toBe(told.smallestLatencyNs);
          expect(told.curve).toEqual(curve);
          expect(curve[0]!.endNs).toBe(told.recordedDurationNs);
        }
      }
    }),
    { numRuns: times(20) },
  );
});

test('a curve has no line that could be left out, and they are in order', async () => {
  const lines = fc.array(fc.record({ events: fc.bigInt(0n, 12n), endNs: fc.bigInt(0n, 200n) }), { minLength: 1 });
  fc.assert(
    fc.property(fc.array(lines, { minLength: 1, maxLength: 4 }), (threads) => {
      const ascending = threads.map((some) => some.toSorted((a, b) => Number(a.events - b.events)));
      const reduced = ascending.map((some) => {
        const kept: CurveLine[] = [];
        for (const line of some) addLine(kept, line);
        return kept;
      });
      const curve = mergeCurveLines(reduced);
      const all = threads.flat();
      // Lines with whole numbers cross at multiples of these parts, so a coarser look would miss some.
      for (let latencyNs = 0n; latencyNs < 220n; latencyNs++)
        expect(endWith(curve, latencyNs)).toBe(endWith(all, latencyNs));
      for (const [i, { events, endNs }] of curve.slice(1).entries()) {
        expect(events).toBeGreaterThan(curve[i]!.events);
        expect(endNs).toBeLessThan(curve[i]!.endNs);
      }
      const crossings = curve.slice(1).map(({ events, endNs }, i) => {
        return Number(curve[i]!.endNs - endNs) / Number(events - curve[i]!.events);
      });
      expect(crossings).toEqual([...new Set(crossings)].sort((a, b) => a - b));
    }),
  );
});

test('the values of 64-bit integers are exact', async () => {
  const rows: NodeRow[] = [
    { node: 'node-a', at: START, duration: 2n ** 62n + 1n, transaction: 'tx-1', tid: 1 },
    { node: 'node-a', at: START + 3n, duration: 2n ** 62n - 5n, transaction: 'tx-1', tid: 1 },
  ];
  const [[, curve]] = (await curvesOf(storeOf(rows), {}, {})) as [[string, Curve]];
  expect(curve).toEqual([
    { events: 1n, endNs: 2n ** 62n + 1n },
    { events: 2n, endNs: 2n ** 62n - 2n },
  ]);
});

test('a transaction without own events has no duration, and one that is gone has no curve', async () => {
  const row: NodeRow = {
    node: 'node-a',
    type: 'block_io',
    at: START,
    duration: 5n,
    transaction: 'tx-1',
    source: 'origin',
  };
  const store = storeOf([row]);
  expect(await curvesOf(store, {}, {})).toEqual([['tx-1', [{ events: 0n, endNs: 0n }]]]);
  const listed = transactionsOf(store);
  const gone = [...listed, ...listed].map((one, i) => ({ ...one, transactionId: `gone-${i}` }));
  expect(await readCurves(store, gone)).toEqual([null, null]);
  expect(await readCurves(store, gone.slice(1))).toEqual([null]);
});

test('a node that is not recorded is refused, also when there is no transaction', async () => {
  const store = storeOf([{ node: 'node-a', at: START, transaction: 'tx-1' }]);
  await expect(readCurves(store, [], {}, { 'node-x': 1 })).rejects.toMatchObject({ code: 'invalid_body' });
});
