/**
 * Decides which differences between two groups chance does not explain. Each value is tested by how improbable it is
 * that a random choice of the selected has as many with the value (hypergeometric, two-sided); the normal approximation
 * of two proportions finds differences in noise where a value is rare. Holm's method keeps the chance of any wrong
 * finding below ALPHA, over all values that were tried. A value that is too rare ever to be found does not count
 * (Tarone): otherwise, thousands of files that are used once would hide the others.
 */
export interface Counted {
  selected: number;
  others: number;
}

const ALPHA = 0.05;
/** Smaller differences are of no use, however certain they are. */
const APART_MIN = 0.02;

export interface Tested {
  /** Places of the values that differ. */
  found: number[];
  /** Number of values over which the chance of a wrong finding is kept. */
  tried: number;
}

/** `sizes` are those of the two groups. */
export function differing(values: readonly Counted[], sizes: Counted): Tested {
  const least = leastProbabilities(values, sizes);
  const tried = testable(least.toSorted((a, b) => a - b));
  const tested = values
    .map((value, i) => ({ i, p: least[i]! <= ALPHA / tried && isApart(value, sizes) ? probability(value, sizes) : 1 }))
    .sort((a, b) => a.p - b.p);
  // Values that are not apart count as tried and not found, which makes the others no easier to find.
  const end = tested.findIndex(({ p }, rank) => p > ALPHA / Math.max(1, tried - rank));
  return { found: tested.slice(0, end < 0 ? tested.length : end).map(({ i }) => i), tried };
}

export function shareDifference({ selected, others }: Counted, sizes: Counted): number {
  return selected / sizes.selected - others / sizes.others;
}

function isApart(value: Counted, sizes: Counted): boolean {
  return Math.abs(shareDifference(value, sizes)) > APART_MIN;
}

/** The smallest probability that each value could have, if as many or as few as possible were selected. */
function leastProbabilities(values: readonly Counted[], sizes: Counted): number[] {
  const known = new Map<number, number>();
  return values.map(({ selected, others }) => {
    const carriers = selected + others;
    let p = known.get(carriers);
    if (p === undefined) {
      const all = Math.min(carriers, sizes.selected);
      const none = Math.max(0, carriers - sizes.others);
      const extremes = [all, none].map((count) => Math.exp(logProbability(count, carriers, sizes)));
      p = Math.min(1, 2 * Math.min(...extremes));
      known.set(carriers, p);
    }
    return p;
  });
}

/** The smallest k for which at most k values can be found with ALPHA / k; at least 1. */
function testable(sorted: readonly number[]): number {
  let k = 1;
  for (let count = 0; ; k++) {
    count = countUpTo(sorted, ALPHA / k);
    if (count <= k) return k;
  }
}

function countUpTo(sorted: readonly number[], limit: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Twice the probability of as many selected, or of more; or of as few, or of fewer. */
export function probability({ selected, others }: Counted, sizes: Counted): number {
  const carriers = selected + others;
  const rows = sizes.selected + sizes.others;
  const isMany = selected * rows >= carriers * sizes.selected;
  const end = isMany ? Math.min(carriers, sizes.selected) : Math.max(0, carriers - sizes.others);
  const step = isMany ? 1 : -1;
  let [term, sum] = [1, 1];
  // The terms fall towards the end, so those that no longer change the sum need no adding.
  for (let count = selected; count !== end && term > sum * 1e-17; count += step) {
    const [lost, gained] = isMany
      ? [(count + 1) * (sizes.others - carriers + count + 1), (carriers - count) * (sizes.selected - count)]
      : [(carriers - count + 1) * (sizes.selected - count + 1), count * (sizes.others - carriers + count)];
    term *= gained / lost;
    sum += term;
  }
  return Math.min(1, 2 * sum * Math.exp(logProbability(selected, carriers, sizes)));
}

/** The logarithm of the probability that this many carriers are selected. */
function logProbability(count: number, carriers: number, sizes: Counted): number {
  const rows = sizes.selected + sizes.others;
  return (
    logChoices(carriers, count) + logChoices(rows - carriers, sizes.selected - count) - logChoices(rows, sizes.selected)
  );
}

function logChoices(from: number, count: number): number {
  return logFactorial(from) - logFactorial(count) - logFactorial(from - count);
}

const SMALL_FACTORIALS = [0];
for (let n = 1; n < 64; n++) SMALL_FACTORIALS.push(SMALL_FACTORIALS[n - 1]! + Math.log(n));

/** Stirling's series; from 64 on, its error is below 1e-15. */
function logFactorial(n: number): number {
  if (n < SMALL_FACTORIALS.length) return SMALL_FACTORIALS[n]!;
  const square = n * n;
  const series = (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / n;
  return (n + 0.5) * Math.log(n) - n + 0.5 * Math.log(2 * Math.PI) + series;
}
