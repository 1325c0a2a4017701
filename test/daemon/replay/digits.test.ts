/** Tests numbers written as text into a buffer: they equal `String(...)`, and no other byte is touched. */
import fc from 'fast-check';
import { DIGITS_MAX, writeBigDigits, writeDigits } from '../../../daemon/replay/session/digits.ts';

/** Around the powers of ten a digit could be lost. */
const EDGES = Array.from({ length: 16 }, (_, power) => 10 ** power).flatMap((power) => [power - 1, power, power + 1]);
const BEFORE = 3;

function text(write: (to: Buffer, at: number) => number): string {
  const to = Buffer.alloc(BEFORE + DIGITS_MAX + 1, '.');
  const end = write(to, BEFORE);
  expect(to.toString('latin1', 0, BEFORE) + to.toString('latin1', end)).toMatch(/^\.+$/);
  return to.toString('latin1', BEFORE, end);
}

test('any number up to 2^53 - 1', () => {
  const numbers = fc.oneof(fc.maxSafeNat(), fc.nat(), fc.constantFrom(...EDGES, Number.MAX_SAFE_INTEGER));
  fc.assert(
    fc.property(numbers, (value) => {
      expect(text((to, at) => writeDigits(to, at, value))).toBe(String(value));
    }),
    { numRuns: 1000 },
  );
});

test('any BigInt up to 2^64 - 1', () => {
  const edges = [
    ...EDGES.map(BigInt),
    10n ** 18n - 1n,
    10n ** 18n,
    10n ** 18n + 1n,
    2n ** 53n + 1n,
    2n ** 63n - 1n,
    2n ** 64n - 1n,
  ];
  const numbers = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.constantFrom(...edges));
  fc.assert(
    fc.property(numbers, (value) => {
      expect(text((to, at) => writeBigDigits(to, at, value))).toBe(String(value));
    }),
    { numRuns: 1000 },
  );
});
