/**
 * Tests that a histogram's quantiles match those of the sorted values within its error bound, and that parts add up to
 * the whole.
 */
import fc from 'fast-check';
import { nativeSums } from '../../../bpf/schema/native_sums.ts';
import { toCell } from '../../../daemon/sums/cells.ts';
import { addHistogram, type Histogram, quantile } from '../../../daemon/sums/histogram.ts';

/** Numbers of every magnitude: a uniform 64-bit number is nearly always a large one. */
const u64 = fc
  .tuple(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.integer({ min: 0, max: 63 }))
  .map(([value, shift]) => value >> BigInt(shift));
const values = fc.array(u64, { minLength: 1, maxLength: 60 });
const shares = fc.constantFrom(0.001, 0.5, 0.9, 0.99, 1);

function histogramOf(all: readonly bigint[]): Histogram {
  const sums = nativeSums.createSums();
  const values = BigUint64Array.from(all);
  nativeSums.addRows(sums, new Uint32Array(all.length), 0, all.length, values, values);
  return toCell(nativeSums.takeSums(sums)[0]!).durations;
}

test('a quantile is within a 128th of the value at its rank', () => {
  fc.assert(
    fc.property(values, shares, (all, share) => {
      const sorted = all.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      const exact = sorted[Math.ceil(share * all.length) - 1]!;
      const found = quantile(histogramOf(all), share);
      const error = found > exact ? found - exact : exact - found;
      expect(error * 128n <= exact).toBe(true);
      if (exact < 128n) expect(found).toBe(exact);
      expect(found <= sorted.at(-1)!).toBe(true);
      expect(histogramOf(all).max).toBe(sorted.at(-1));
    }),
    { numRuns: 2000 },
  );
});

test('histograms of parts add up to that of the whole', () => {
  fc.assert(
    fc.property(values, values, (a, b) => {
      const sum = histogramOf(a);
      addHistogram(sum, histogramOf(b));
      expect(sum).toEqual(histogramOf([...a, ...b]));
    }),
  );
});
