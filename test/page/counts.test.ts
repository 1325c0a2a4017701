/** Counts by process and time, against the events that they count. */
import fc from 'fast-check';
import {
  type CountedRow,
  computeBucketNs,
  computeLastEndNs,
  countMostEvents,
  sumCounts,
} from '../../daemon/page/draw/counts.ts';

const event = fc.record({
  at: fc.bigInt({ min: 0n, max: 5000n }),
  node: fc.constantFrom('n1', 'n2'),
  pid: fc.constantFrom(7, 8),
  event_type: fc.constantFrom('sys_write', 'block_io'),
  isFailed: fc.boolean(),
});
const base = fc.constantFrom(0n, 1_763_683_200_000_000_001n, 2n ** 63n - 10_000n);

test('the counts are those of the events, and no window has more than is said', () => {
  fc.assert(
    fc.property(
      fc.array(event, { minLength: 1, maxLength: 50, size: 'max' }),
      base,
      fc.integer({ min: 1, max: 300 }),
      fc.bigInt({ min: 0n, max: 5000n }),
      fc.bigInt({ min: 1n, max: 5000n }),
      (events, baseNs, most, from, length) => {
        const times = events.map(({ at }) => baseNs + at);
        const first = times.reduce((a, b) => (a < b ? a : b));
        const last = times.reduce((a, b) => (a > b ? a : b));
        const bucketNs = computeBucketNs(first, last, most);
        // As the daemon sums them up: a row for each bucket and group.
        const rows = [...Map.groupBy(events, (one) => JSON.stringify(groupOf(one, baseNs, bucketNs), text))].map(
          ([, some]): CountedRow => {
            const { node, pid, event_type, at } = some[0]!;
            return {
              bucket_start_ns: ((baseNs + at) / bucketNs) * bucketNs,
              group: { node, service: 'shop', pid, event_type },
              count: some.length,
              error_count: some.filter(({ isFailed }) => isFailed).length,
            };
          },
        );
        const counts = sumCounts(rows, first, last, bucketNs);
        expect(counts.bucketCount).toBeLessThanOrEqual(Math.max(most, 2));
        // More may have been recorded since the end was asked for.
        expect(sumCounts(rows, first, first, bucketNs).all).toEqual(counts.all);
        const sum = (values: Uint32Array) => values.reduce((a, b) => a + b, 0);
        expect(sum(counts.all.counts)).toBe(events.length);
        expect(sum(counts.all.failed)).toBe(events.filter(({ isFailed }) => isFailed).length);
        for (const { node, pid, count, density, types } of counts.processes) {
          const own = events.filter((one) => one.node === node && one.pid === pid);
          expect([count, sum(density.counts)]).toEqual([own.length, own.length]);
          for (const [type, ofType] of types)
            expect(ofType).toBe(own.filter(({ event_type }) => event_type === type).length);
        }
        const within = times.filter((ns) => ns >= baseNs + from && ns < baseNs + from + length);
        expect(countMostEvents(counts, baseNs + from, baseNs + from + length)).toBeGreaterThanOrEqual(within.length);
        expect(countMostEvents(counts, 0n, last + 1n)).toBe(events.length);
      },
    ),
    { numRuns: 300 },
  );
});

test('the end is that of the last event, own or written back', () => {
  const [own, later] = [2n ** 63n - 2n, 2n ** 63n - 1n];
  const writtenBack = (last_end_ns: bigint | null) => ({ written_back: { count: 1, bytes: 1, last_end_ns } });
  expect(computeLastEndNs({ last_end_ns: own, ...writtenBack(later) })).toBe(later);
  expect(computeLastEndNs({ last_end_ns: later, ...writtenBack(own) })).toBe(later);
  expect(computeLastEndNs({ last_end_ns: 5, ...writtenBack(null) })).toBe(5n);
});

type Counted = { at: bigint; node: string; pid: number; event_type: string };
const groupOf = ({ at, node, pid, event_type }: Counted, baseNs: bigint, bucketNs: bigint) => [
  ...[(baseNs + at) / bucketNs, node, pid, event_type],
];
const text = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
