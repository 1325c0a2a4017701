/** Tests the summary of lateness against sorting all values. */
import fc from 'fast-check';
import { createLateness, LATE_NS } from '../../../../daemon/replay/clock/lateness.ts';

test('without measurements all values are zero', () => {
  expect(createLateness().summary()).toEqual({ p50_ns: 0, p99_ns: 0, max_ns: 0n, late_events: 0 });
});

test('percentiles are within a hundredth of those of the sorted values, and maximum and count are exact', () => {
  const values = fc.array(fc.integer({ min: 0, max: 10 ** 9 }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(values, (all) => {
      const lateness = createLateness();
      for (const value of all) lateness.record(value);
      const sorted = all.toSorted((a, b) => a - b);
      const at = (percent: number) => sorted[Math.ceil((percent / 100) * sorted.length) - 1]!;
      const { p50_ns, p99_ns, max_ns, late_events } = lateness.summary();
      expect(Math.abs(p50_ns - at(50))).toBeLessThanOrEqual(at(50) / 100 + 1);
      expect(Math.abs(p99_ns - at(99))).toBeLessThanOrEqual(at(99) / 100 + 1);
      expect(Number(max_ns)).toBe(sorted.at(-1));
      expect(p99_ns).toBeLessThanOrEqual(Number(max_ns));
      expect(late_events).toBe(all.filter((value) => value > LATE_NS).length);
      lateness.reset();
      expect(lateness.summary().max_ns).toBe(0n);
    }),
  );
});
