/** Tests durations and milliseconds against integer arithmetic on the same digits. */
import fc from 'fast-check';
import { formatMilliseconds, parseDuration, parseMilliseconds } from '../../../daemon/base/duration.ts';

const ns = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });

test('milliseconds of any 64-bit duration are exact', () => {
  fc.assert(fc.property(ns, (value) => parseMilliseconds(formatMilliseconds(value)) === value));
});

test('six fractional digits are read as nanoseconds', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 13n }), fc.integer({ min: 0, max: 999_999 }), (whole, fraction) => {
      const text = `${whole}.${fraction.toString().padStart(6, '0')}`;
      return parseMilliseconds(text) === whole * 1_000_000n + BigInt(fraction);
    }),
  );
});

test.each([
  ['0', 0n],
  ['0.05', 50_000n],
  ['5', 5_000_000n],
  ['0.000001', 1n],
  ['1.0000000', 1_000_000n],
  // As a double this is 9007199254.740994.
  ['9007199254.740993', 9_007_199_254_740_993n],
])('%s milliseconds are %s ns', (text, expected) => {
  expect(parseMilliseconds(text)).toBe(expected);
});

test.each([
  '',
  ' 1',
  '-1',
  '+1',
  '1e3',
  '.5',
  '5.',
  '0x10',
  '1,5',
  '0.0000001',
  'NaN',
  'Infinity',
  '1ms',
  '9'.repeat(65),
])('%j is not milliseconds', (text) => {
  expect(parseMilliseconds(text)).toBeUndefined();
});

test.each([
  ['15m', 900_000_000_000n],
  ['1h30m', 5_400_000_000_000n],
  ['1.5h', 5_400_000_000_000n],
  ['50us', 50_000n],
  ['50µs', 50_000n],
  ['2ms', 2_000_000n],
  ['1m1ms1s', 61_001_000_000n],
  ['7d', 604_800_000_000_000n],
  ['0s', 0n],
  ['0', 0n],
  ['000', 0n],
  ['9007199254740993ns', 9_007_199_254_740_993n],
])('%s lasts %s ns', (text, expected) => {
  expect(parseDuration(text)).toBe(expected);
});

test.each(['', '15', '0.0', '-0', 'm', '1 h', '-1s', '1h30', '1.s', '.5s', '0.5ns', '1w', '1S', '1h-30m'])(
  '%j is not a duration',
  (text) => {
    expect(parseDuration(text)).toBeUndefined();
  },
);

test('parts of a duration add up', () => {
  const part = fc.nat(10_000);
  fc.assert(
    fc.property(part, part, part, (h, s, n) => {
      return (
        parseDuration(`${h}h${s}s${n}ns`) === BigInt(h) * 3_600_000_000_000n + BigInt(s) * 1_000_000_000n + BigInt(n)
      );
    }),
  );
});
