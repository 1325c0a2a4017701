/** Tests which measured offsets are applied: those that are sure not to be noise. */
import fc from 'fast-check';
import { selectMeasuredOffsets } from '../../../../daemon/replay/plan/clock_offsets.ts';

const MS = 1_000_000n;

test.each([
  ['three uncertainties', 30n * MS, 10n * MS, true],
  ['three uncertainties the other way', -30n * MS, 10n * MS, true],
  ['a nanosecond less', 30n * MS - 1n, 10n * MS, false],
  ['a nanosecond less the other way', 1n - 30n * MS, 10n * MS, false],
  ['much more', 5000n * MS, 1n, true],
  ['no offset', 0n, 10n * MS, false],
  ['an offset that was never measured', 5000n * MS, 0n, false],
  ['nothing that was ever measured', 0n, 0n, false],
  ['a clock that is at 1970', 1_763_683_200_000n * MS + 1n, MS, true],
  ['the largest offset that can be applied', 2n ** 61n, MS, true],
  ['the largest the other way', -(2n ** 61n), MS, true],
  ['a larger one', 2n ** 61n + 1n, MS, false],
  ['an uncertainty of a year', 2n ** 61n, 31_536_000_000n * MS, false],
] as const)('%s', (_, offsetNs, uncertaintyNs, isApplied) => {
  expect(selectMeasuredOffsets([{ node: 'a', offsetNs, uncertaintyNs }])).toEqual(
    isApplied
      ? { clockOffsetsNs: { a: offsetNs }, clockUncertaintiesNs: { a: Number(uncertaintyNs) } }
      : { clockOffsetsNs: {}, clockUncertaintiesNs: {} },
  );
});

test('what is applied is exact, has both values, and is beyond doubt', () => {
  const offsetNs = fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n);
  const clock = fc.record({ node: fc.string(), offsetNs, uncertaintyNs: fc.bigInt(0n, 2n ** 64n - 1n) });
  fc.assert(
    fc.property(fc.uniqueArray(clock, { selector: ({ node }) => node }), (clocks) => {
      const { clockOffsetsNs, clockUncertaintiesNs } = selectMeasuredOffsets(clocks);
      expect(Object.keys(clockUncertaintiesNs)).toEqual(Object.keys(clockOffsetsNs));
      for (const [node, offset] of Object.entries(clockOffsetsNs)) {
        const measured = clocks.find((one) => one.node === node)!;
        expect(BigInt(offset)).toBe(measured.offsetNs);
        expect(BigInt(clockUncertaintiesNs[node]!)).toBe(measured.uncertaintyNs);
        const least = 3n * measured.uncertaintyNs;
        expect(measured.offsetNs >= least || measured.offsetNs <= -least).toBe(true);
      }
    }),
  );
});
