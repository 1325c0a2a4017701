/** Tests medians against sorting: for values of every size, some of which are 0 and not added. */
import fc from 'fast-check';
import { createMedianFinder } from '../../../daemon/sums/median.ts';
import { times } from '../../repeats.ts';

const value = fc.oneof(
  fc.bigInt({ min: 0n, max: 300n }),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.integer({ min: 0, max: 63 }).chain((bits) => fc.constantFrom(2n ** BigInt(bits), 2n ** BigInt(bits + 1) - 1n)),
);

test('a median is that of the sorted values, to within 1/128', () => {
  fc.assert(
    fc.property(fc.array(value), fc.nat(20), (values, zeros) => {
      const finder = createMedianFinder();
      for (const ns of values) {
        if (ns < 2n ** 53n && ns % 2n === 0n) finder.add(Number(ns));
        else finder.addWords(Number(ns & 0xffff_ffffn), Number(ns >> 32n));
      }
      const all = [...values, ...Array<bigint>(zeros).fill(0n)].sort((a, b) => (a < b ? -1 : 1));
      const exact = all[Math.ceil(all.length / 2) - 1] ?? 0n;
      const found = finder.find(all.length);
      expect(128n * (found < exact ? exact - found : found - exact) <= exact).toBe(true);
      if (exact < 128n) expect(found).toBe(exact);
    }),
    { numRuns: times(1000) },
  );
});

test('equal values have themselves as median', () => {
  const finder = createMedianFinder();
  for (let i = 0; i < 3; i++) finder.add(100_000_000);
  expect(finder.find(3)).toBe(100_000_000n);
});
