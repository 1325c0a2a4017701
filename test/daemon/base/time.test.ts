/** Tests times in requests: each is read to the nanosecond or refused. */
import fc from 'fast-check';
import { parseTime, resolveTime } from '../../../daemon/base/time.ts';
import { formatTime } from '../../../daemon/base/time_text.ts';

const NOW = 1_763_683_200_000_000_001n;

function at(text: string): bigint | undefined {
  const time = parseTime(text);
  return time && resolveTime(time, NOW);
}

test('every nanosecond until 2262 survives RFC 3339', () => {
  fc.assert(fc.property(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (ns) => at(formatTime(ns)) === ns));
});

test('every integer of nanoseconds is itself', () => {
  fc.assert(fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (ns) => at(ns.toString()) === ns));
});

test('an offset shifts the same instant', () => {
  const minutes = fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 });
  fc.assert(
    fc.property(fc.bigInt({ min: 10n ** 15n, max: 2n ** 62n }), minutes, (ns, offset) => {
      const local = formatTime(ns + BigInt(offset) * 60_000_000_000n).slice(0, -1);
      const [sign, size] = [offset < 0 ? '-' : '+', Math.abs(offset)];
      const two = (number: number) => number.toString().padStart(2, '0');
      return at(`${local}${sign}${two(Math.floor(size / 60))}:${two(size % 60)}`) === ns;
    }),
  );
});

test.each([
  ['2025-11-21T00:00:00Z', 1_763_683_200_000_000_000n],
  ['2025-11-21T00:00:00.000000001Z', 1_763_683_200_000_000_001n],
  ['2025-11-21t00:00:00.5z', 1_763_683_200_500_000_000n],
  ['2025-11-21T05:30:00+05:30', 1_763_683_200_000_000_000n],
  ['2025-11-20T16:00:00-08:00', 1_763_683_200_000_000_000n],
  ['2024-02-29T00:00:00Z', 1_709_164_800_000_000_000n],
  ['2016-12-31T23:59:60Z', 1_483_228_800_000_000_000n],
  ['1969-12-31T23:59:59.5Z', -500_000_000n],
  ['9999-12-31T23:59:59Z', 253_402_300_799_000_000_000n],
  ['-15m', NOW - 900_000_000_000n],
  ['-1h30m', NOW - 5_400_000_000_000n],
  ['-0s', NOW],
])('%s is %s', (text, expected) => {
  expect(at(text)).toBe(expected);
});

test.each([
  '',
  'now',
  'yesterday',
  '2025-11-21',
  '2025-11-21T00:00:00',
  '2025-11-21 00:00:00Z',
  '2025-11-21T00:00Z',
  '2025-11-21T24:00:00Z',
  '2025-11-21T00:60:00Z',
  '2025-11-21T00:00:61Z',
  '2025-11-21T00:00:00.Z',
  '2025-11-21T00:00:00.0000000001Z',
  '2025-11-21T00:00:00+24:00',
  '2025-11-21T00:00:00 01:00',
  '2025-02-29T00:00:00Z',
  '2025-02-31T00:00:00Z',
  '2025-13-01T00:00:00Z',
  '2025-00-01T00:00:00Z',
  '2025-11-00T00:00:00Z',
  '15m',
  '+15m',
  '-15',
  '-',
  '--15m',
  '1.5',
  '1e18',
  '0x10',
  '123456789012345678901',
  ' 1',
  '٢',
])('%j is not a time', (text) => {
  expect(at(text)).toBeUndefined();
});
