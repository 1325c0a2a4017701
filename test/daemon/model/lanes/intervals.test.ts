/** Sets of time against sets of the nanoseconds in them. */
import fc from 'fast-check';
import {
  intersectSets,
  mergeIntervals,
  overlaps,
  sumLengthNs,
  uniteIntervals,
  uniteSets,
} from '../../../../daemon/model/lanes/intervals.ts';
import { times } from '../../../repeats.ts';

/** The last nanosecond that an interval may have. */
const MAX_NS = 40;

const interval = fc.tuple(fc.nat(MAX_NS), fc.nat(MAX_NS));
const intervals = fc.array(interval, { maxLength: 8 }).map((list) => list.flat());

const within = (ends: ArrayLike<number>): Set<number> => {
  const all = new Set<number>();
  for (let i = 0; i < ends.length; i += 2) for (let ns = ends[i]!; ns < ends[i + 1]!; ns++) all.add(ns);
  return all;
};

/** A set with as few intervals as it can have. */
function setOf(nanoseconds: ReadonlySet<number>): Float64Array {
  const ends: number[] = [];
  for (let ns = 0; ns <= MAX_NS + 1; ns++) if (nanoseconds.has(ns) !== nanoseconds.has(ns - 1)) ends.push(ns);
  return Float64Array.from(ends);
}

const common = (a: Set<number>, b: Set<number>) => new Set([...a].filter((ns) => b.has(ns)));

const RUNS = { numRuns: times(500) };

test('joined intervals have the nanoseconds of each, in intervals that do not touch', () => {
  fc.assert(
    fc.property(intervals, intervals, (one, other) => {
      const [a, b] = [within(one), within(other)];
      expect(uniteIntervals(one)).toEqual(setOf(a));
      expect(mergeIntervals([one, other])).toEqual(setOf(new Set([...a, ...b])));
      expect(uniteSets(uniteIntervals(one), uniteIntervals(other))).toEqual(setOf(new Set([...a, ...b])));
      expect(intersectSets(uniteIntervals(one), uniteIntervals(other))).toEqual(setOf(common(a, b)));
      expect(sumLengthNs(uniteIntervals(one))).toBe(a.size);
    }),
    RUNS,
  );
});

test('an interval overlaps a set if they have a nanosecond in common', () => {
  fc.assert(
    fc.property(intervals, interval, (ends, [start, end]) => {
      const shared = common(within([start, end]), within(ends));
      expect([start, end, overlaps(uniteIntervals(ends), start, end)]).toEqual([start, end, shared.size > 0]);
    }),
    RUNS,
  );
});
