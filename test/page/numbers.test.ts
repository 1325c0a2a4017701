/** Numbers as text: all digits where exactness is promised, and little lost where it is not. */
import fc from 'fast-check';
import { formatBytes, formatExactBytes, formatQuantity, percentText } from '../../daemon/model/wording/amounts.ts';
import {
  formatExactDuration,
  formatExactOffset,
  formatShortDuration,
  groupDigits,
} from '../../daemon/model/wording/exact_times.ts';
import { keepUnits } from '../../daemon/page/numbers/kept_units.ts';
import { formatWallClock } from '../../daemon/page/numbers/wall_clock.ts';

const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: -5_000_000_000n, max: 5_000_000_000n }),
  fc.constantFrom(0n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n), -1n),
);

test.each([
  [0n, '0 ns'],
  [999n, '999 ns'],
  [1_000n, '1.00 µs'],
  [999_994n, '1.00 ms'],
  [999_940n, '999.9 µs'],
  [1_020_000n, '1.02 ms'],
  [9_994_999n, '9.99 ms'],
  [9_995_000n, '10.0 ms'],
  [31_302_187n, '31.3 ms'],
  [394_700_000n, '394.7 ms'],
  [28_400_000_000n, '28.4 s'],
  [59_949_999_999n, '59.9 s'],
  [59_950_000_000n, '1 min 0 s'],
  [125_000_000_000n, '2 min 5 s'],
  [3_599_600_000_000n, '1 h 0 min'],
  [86_400_000_000_000n, '1 d 0 h'],
  [2n ** 63n - 1n, '106 752 d 0 h'],
  [-31_302_187n, '-31.3 ms'],
])('%d ns are shown in short as %s', (ns, text) => {
  expect(formatShortDuration(ns)).toBe(text);
  expect(formatShortDuration(Number(ns))).toBe(text);
});

test('all digits are shown, in groups', () => {
  expect(formatExactDuration(31_302_187n)).toBe('31.302187 ms');
  expect([formatExactOffset(85_495_835n), formatExactOffset(0n), formatExactOffset(-1_000n)]).toEqual([
    '+85.495835 ms',
    '+0 ms',
    '-0.001 ms',
  ]);
  expect(formatExactDuration(2n ** 53n + 1n)).toBe('9 007 199 254.740993 ms');
  expect([10n, 1_000_000n, 20_000_000n, -942_512_110n].map(formatExactDuration)).toEqual([
    '0.00001 ms',
    '1 ms',
    '20 ms',
    '-942.51211 ms',
  ]);
  expect(formatExactBytes(2n ** 63n - 1n)).toBe('9 223 372 036 854 775 807 B');
  fc.assert(fc.property(int64, (value) => expect(BigInt(groupDigits(value).replaceAll(' ', ''))).toBe(value)));
});

test('an exact text has the digits of its number', () => {
  const digits = (text: string) => {
    const [, whole, fraction = ''] = /^\+?(-?[\d ]+)(?:\.(\d+))? ms$/.exec(text)!;
    return BigInt(whole!.replaceAll(' ', '') + fraction.padEnd(6, '0'));
  };
  fc.assert(
    fc.property(int64, (ns) => {
      expect([digits(formatExactDuration(ns)), digits(formatExactOffset(ns))]).toEqual([ns, ns]);
    }),
    { numRuns: 1000 },
  );
});

const UNIT_NS: Record<string, number> = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12, d: 8.64e13 };

/** Nanoseconds of a short text, as precise as a double. */
function read(text: string): number {
  const parts = text.replaceAll(/(\d) (?=\d)/g, '$1').matchAll(/([\d.]+) ([a-zµ]+)/g);
  return [...parts].reduce((sum, [, amount, unit]) => sum + Number(amount) * UNIT_NS[unit!]!, 0);
}

test('a short text is off by half of its last digit at most', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 62n }), fc.integer({ min: 0, max: 62 }), (value, shift) => {
      const ns = value >> BigInt(shift);
      const text = formatShortDuration(ns);
      expect(Math.abs(read(text) - Number(ns)) * 20).toBeLessThanOrEqual(Number(ns));
      expect(text.length).toBeLessThanOrEqual(14);
    }),
    { numRuns: 1000 },
  );
});

test('the clock shows all nine digits, before the epoch, too', () => {
  expect(formatWallClock(1_795_225_051_204_519_240n)).toBe('2026-11-21 01:37:31.204519240');
  expect(formatWallClock(-1n)).toBe('1969-12-31 23:59:59.999999999');
  expect(formatWallClock(2n ** 63n - 1n)).toBe('2262-04-11 23:47:16.854775807');
  expect(formatWallClock(10n ** 25n)).toBe('10000000000000000000000000 ns since the epoch');
  fc.assert(
    fc.property(int64, (ns) => {
      const [, seconds, fraction] = /^(.*)\.(\d{9})$/.exec(formatWallClock(ns))!;
      expect(BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction!)).toBe(ns);
    }),
  );
});

test('shares are never rounded to nothing or to everything', () => {
  const shares = [0, 0.00001, 0.0056, 0.054, 0.81, 0.9951, 0.9996, 0.999999, 1];
  expect(shares.map(percentText)).toEqual([
    ...['0 %', '< 0.01 %', '0.56 %', '5.4 %', '81 %', '99.51 %', '99.96 %', '> 99.99 %', '100 %'],
  ]);
  fc.assert(
    fc.property(fc.double({ min: 1e-9, max: 1 - 1e-9, noNaN: true }), (share) => {
      expect(percentText(share)).not.toMatch(/^(0|0\.00|100|100\.00) %$/);
    }),
  );
});

test('sizes and counts', () => {
  const sizes = [0, 1023, 1024, 1536, 1048576, 1048575, 5 * 1024 ** 4];
  expect(sizes.map(formatBytes)).toEqual(['0 B', '1 023 B', '1 KiB', '1.5 KiB', '1 MiB', '1.0 MiB', '5 TiB']);
  expect([formatQuantity(1, 'request'), formatQuantity(8000, 'request')]).toEqual(['1 request', '8 000 requests']);
});

test('a number is on one line with its digits and its unit, and other spaces may break', () => {
  const shown = (text: string) => keepUnits(text).replaceAll('\u00a0', '_');
  expect(
    [
      'order-1 of shop took 112.0 ms, 97 % of it in one fsync',
      '< 0.01 % (5.4 %) of 2 101 248 events',
      '+85.495835 ms, -3 µs, 1.5 KiB, 512 B, 2 min 5 s',
      '8 requests on node-2 of 3 hosts',
      'event 1 of 2',
    ].map(shown),
  ).toEqual([
    'order-1 of shop took 112.0_ms, 97_% of it in one fsync',
    '< 0.01_% (5.4_%) of 2_101_248_events',
    '+85.495835_ms, -3_µs, 1.5_KiB, 512_B, 2_min 5_s',
    '8_requests on node-2 of 3_hosts',
    'event 1_of 2',
  ]);
});
