/**
 * Tests a transaction over two nodes of which one had no clock, and began in 1970 or a lifetime ahead: with its offset,
 * every plan and what-if is that of the same events by right clocks, to the nanosecond.
 */
import fc from 'fast-check';
import { formatEventId } from '../../../../daemon/base/event_id.ts';
import { openPlan, type PlanWork } from '../../../../daemon/replay/plan/plan.ts';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import { createPageCache } from '../../../../daemon/replay/plan/recorded.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { times as repeats } from '../../../repeats.ts';
import { type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { readCurves } from './read_curves.ts';

const TRANSACTION = 'tx';
/** What the clock of node-1 is off by. No double holds it. */
const OFFS = [1n - START, 2_207_520_000_000_000_003n] as const;
/** An offset that is asked for beside that one. */
const SMALL_NS = 2_000_000n;

interface Planned {
  node: number;
  tid: number;
  at: number;
  duration: number;
}

const planned: fc.Arbitrary<Planned[]> = fc.array(
  fc.record({
    node: fc.nat(1),
    tid: fc.integer({ min: 1, max: 3 }),
    at: fc.nat(100_000_000),
    duration: fc.nat(20_000_000),
  }),
  { minLength: 2, maxLength: 40 },
);

/** The events with `cpu` as their number; those of node-1 by a clock that is off. */
function storeOf(events: readonly Planned[], offNs: bigint): Recordings {
  const folders = [0, 1].flatMap((node) => {
    const rows = events.flatMap((event, cpu): Row[] => {
      const at = START + BigInt(event.at) + (node === 1 ? offNs : 0n);
      const row = { at, duration: BigInt(event.duration), tid: event.tid, cpu, transaction: TRANSACTION };
      return event.node === node ? [row] : [];
    });
    return rows.length > 0
      ? [
          recordedOn(
            `node-${node}`,
            rows.toSorted((a, b) => Number(a.at - b.at)),
          ),
        ]
      : [];
  });
  return openRecordingStore(undefined, folders.map(recordingPath));
}

const offsetsOf = (store: Recordings, ns: bigint) => (store.nodes().includes('node-1') ? { 'node-1': ns } : {});

function planOf(store: Recordings, ns: bigint, extraLatencyNs: number, maxGapNs: number | null): PlanWork {
  const request = {
    transactionId: TRANSACTION,
    latency: [{ fromIndex: 0, extraLatencyNs }],
    timeoutNs: null,
    maxGapNs,
  };
  const caches = { recorded: createPageCache<never>(3), bodies: createPageCache<never>(2) };
  const sizes = { pageEvents: 5, markEvents: 4 };
  const work = openPlan(store, { ...request, clockOffsetsNs: offsetsOf(store, ns) }, caches, sizes);
  while (work.advance());
  return work;
}

/** What is played when. Events that start together have no order that both recordings share. */
function played(work: PlanWork): string[] {
  const { startNs, durationNs, bytes, ends, count } = work.readPage(0, 100);
  const all = Array.from({ length: count }, (_, i) => {
    const { cpu } = JSON.parse(Buffer.from(bytes.subarray(i === 0 ? 0 : ends[i - 1], ends[i])).toString());
    return [startNs[i]!, cpu as number, durationNs[i]!] as const;
  });
  expect(all.map(([start]) => start)).toEqual(all.map(([start]) => start).toSorted((a, b) => a - b));
  return all.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]).map(String);
}

test.each(OFFS)('a clock that is off by %s ns is as good as a right one', (offNs) => {
  const settings = fc.record({ latency: fc.nat(3_000_000), gap: fc.option(fc.nat(10_000_000)), index: fc.nat(39) });
  fc.assert(
    fc.property(planned, settings, (events, { latency, gap, index }) => {
      const stores = [storeOf(events, 0n), storeOf(events, offNs)] as const;
      const [right, off] = [
        planOf(stores[0], SMALL_NS, latency, gap),
        planOf(stores[1], SMALL_NS - offNs, latency, gap),
      ];
      expect(played(off)).toEqual(played(right));
      const { eventCount, recordedDurationNs, survey } = off.outline();
      expect({ eventCount, recordedDurationNs, survey }).toEqual({
        ...right.outline(),
        ...{ firstTimestampNs: undefined, latency: undefined, clocks: undefined },
      });
      // An event of each recording by its time, and by its id.
      const [cpu, { node, at }] = [index % events.length, events[index % events.length]!] as const;
      const position = (work: PlanWork, store: Recordings, ns: bigint) => {
        const [event] = [...store.scan({ filter: { transactionId: TRANSACTION }, order: 'asc' })].flatMap(
          ({ block, dictionary }) => {
            const row = block.columns
              .get('cpu')!
              .subarray(0, block.rowCount)
              .indexOf(cpu as never);
            return row < 0 ? [] : [formatEventId(dictionary.recordingId, block.numbers[row]!)];
          },
        );
        const byTime = work.place({ timestamp_ns: START + BigInt(at) + (node === 1 ? ns : 0n) });
        return [work.place({ event_id: event! })?.positionNs, byTime !== null];
      };
      expect(position(off, stores[1], offNs)).toEqual(position(right, stores[0], 0n));
      for (const work of [right, off]) work.close();
      for (const store of stores) store.close();
    }),
    { numRuns: repeats(8) },
  );
});

test.each(OFFS)('what-ifs and curves with a clock that is off by %s ns are those with a right one', async (offNs) => {
  const events = fc.sample(planned, { numRuns: 8, seed: 7 });
  for (const some of events) {
    const stores = [storeOf(some, 0n), storeOf(some, offNs)] as const;
    const [right, off] = await Promise.all(
      stores.map(async (store, i) => {
        const clockOffsetsNs = offsetsOf(store, i === 0 ? SMALL_NS : SMALL_NS - offNs);
        const asked = {
          transactionId: TRANSACTION,
          extraLatencyNs: 1_000_000n,
          timeoutNs: 60_000_000n,
          only: {},
          limit: 0,
        };
        const { clocks, ...told } = await createPlanner(store).whatIf({ ...asked, clockOffsetsNs });
        const { firstTimestampNs: firstNs, lastEndNs, nodes } = store.findTransaction(TRANSACTION)!;
        const one = {
          transactionId: TRANSACTION,
          firstNs,
          lastEndNs,
          nodes,
          eventCount: some.length,
          isDivided: true,
          isWrittenBack: false,
        };
        return [told, await readCurves(store, [one], {}, clockOffsetsNs)];
      }),
    );
    expect(off).toEqual(right);
    for (const store of stores) store.close();
  }
});

test('without its offset the replay is refused, with what mends it; one that is of another clock is too long as well', () => {
  const events = [0, 1].map((node) => ({ node, tid: 1, at: node, duration: 5 }));
  const store = storeOf(events, OFFS[0]);
  expect(() => planOf(store, 0n, 0, null)).toThrow(/104 days.*: if a clock was off, give clock_offsets_ns/);
  expect(() => planOf(store, OFFS[0], 0, null)).toThrow(/104 days, the most that a session can play$/);
  expect(() => planOf(store, -OFFS[0] + BigInt(Number.MAX_SAFE_INTEGER), 0, null)).toThrow(/104 days/);
  expect(() => planOf(store, 2n ** 62n + 1n, 0, null)).toThrow(/146 years apart/);
  store.close();
});
