/** Tests how numbers are counted across losses of power, against a list of those that were given. */
import fc from 'fast-check';
import { computeRestartNumber, countGivenNumbers } from '../../../../agent/recording/format/numbers.ts';

/** How many numbers were given between each two losses of power. */
const runs = fc.array(fc.nat(5), { minLength: 1, maxLength: 4 });

function givenNumbers(counts: readonly number[]): number[] {
  const given: number[] = [];
  let next = 0;
  for (const count of counts) {
    for (let i = 0; i < count; i++) given.push(next++);
    next = computeRestartNumber(next);
  }
  return given;
}

test('no number is given twice, and none that was not given is counted', () => {
  fc.assert(
    fc.property(runs, fc.nat(30), fc.nat(30), fc.nat(30), (counts, a, b, c) => {
      const given = givenNumbers(counts);
      expect(new Set(given).size).toBe(given.length);
      const ends = [0, ...given.map((number) => number + 1)];
      const [from, seen, end] = [a, b, c].map((i) => ends[i % ends.length]!) as [number, number, number];
      const among = given.filter((number) => number >= from && number < end).length;
      expect(countGivenNumbers(from, end, seen)).toBeLessThanOrEqual(among);
      const isOneRun = Math.floor(from / 2 ** 32) === Math.floor(end / 2 ** 32);
      if (isOneRun) expect(countGivenNumbers(from, end)).toBe(among);
    }),
  );
});

test('numbers before a loss of power count as far as they were seen', () => {
  const step = computeRestartNumber(100);
  expect(countGivenNumbers(40, step + 7)).toBe(7);
  expect(countGivenNumbers(40, step + 7, 90)).toBe(57);
  expect(countGivenNumbers(40, step + 7, step)).toBe(7);
  expect(countGivenNumbers(step + 2, step + 7, 90)).toBe(5);
});
