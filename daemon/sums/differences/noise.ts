/**
 * Decides which differences between two groups are not explained by chance. The test of a value computes how improbable
 * it is that a random selection contains as many carriers of the value as the actual selection (hypergeometric,
 * two-sided). The normal approximation of two proportions is not used, because it would find differences in noise if a
 * value is rare. Holm's method keeps the chance of any wrong finding below ALPHA, over all values that were tried. A
 * value that is too rare ever to be found does not count as tried (Tarone): otherwise, thousands of files that are each
 * used once would hide other values.
 *
 * A value may be tested in strata: the random selection is then made within each stratum, and the numbers of carriers
 * are added up.
 */
import { findFirstAbove } from '../../base/binary_search.ts';
import { type CarrierCounts, computeStratifiedProbability, type Stratum } from './strata.ts';

export interface TestedValue extends CarrierCounts {
  /** The strata in which the value is tested; undefined if the value is tested without strata. */
  strata?: readonly Stratum[] | undefined;
}

const ALPHA = 0.05;
/** Minimum difference of shares: a smaller difference is not reported, however certain it is. */
const APART_MIN = 0.02;

export interface Tested {
  /** Indexes of the values whose shares differ between the two groups. */
  found: number[];
  /** Number of values for which the chance of a wrong finding is limited. */
  tried: number;
}

/** Number of tests in strata between two yields: each test may take 10 ms. */
const STRATA_TESTS_A_STEP = 4;

/** Finds the values that differ; `sizes` are the sizes of the two groups. Yields so that other work can run. */
export function* findDiffering(values: readonly TestedValue[], sizes: CarrierCounts): Generator<void, Tested> {
  const least = computeLeastProbabilities(values, sizes);
  const tried = countTestable(least.toSorted((a, b) => a - b));
  const tested: { i: number; p: number }[] = [];
  let inStrata = 0;
  for (const [i, value] of values.entries()) {
    const isTested = least[i]! <= ALPHA / tried && isApart(value, sizes);
    tested.push({ i, p: isTested ? computeProbability(value, sizes) : 1 });
    if (isTested && value.strata && ++inStrata % STRATA_TESTS_A_STEP === 0) yield;
  }
  tested.sort((a, b) => a.p - b.p);
  // Values whose shares differ too little count as tried but not as found, so they do not make other values easier to
  // find.
  const end = tested.findIndex(({ p }, rank) => p > ALPHA / Math.max(1, tried - rank));
  return { found: tested.slice(0, end < 0 ? tested.length : end).map(({ i }) => i), tried };
}

export function computeShareDifference({ selected, others }: CarrierCounts, sizes: CarrierCounts): number {
  return selected / sizes.selected - others / sizes.others;
}

/** Returns whether the shares differ enough, both in total, as the answer shows them, and in the strata of the test. */
function isApart(value: TestedValue, sizes: CarrierCounts): boolean {
  const difference = computeShareDifference(value, sizes);
  if (Math.abs(difference) <= APART_MIN) return false;
  return !value.strata || computeStratifiedDifference(value.strata) * Math.sign(difference) > APART_MIN;
}

/**
 * Returns the weighted difference of the shares over all strata (Mantel and Haenszel); NaN if every stratum lacks one
 * side.
 */
function computeStratifiedDifference(strata: readonly Stratum[]): number {
  let [sum, weights] = [0, 0];
  for (const { selected, others, sizes } of strata) {
    const all = sizes.selected + sizes.others;
    if (all === 0) continue;
    sum += (selected * sizes.others - others * sizes.selected) / all;
    weights += (sizes.selected * sizes.others) / all;
  }
  return sum / weights;
}

function computeProbability({ strata, ...value }: TestedValue, sizes: CarrierCounts): number {
  if (!strata) return computeTailProbability(value, sizes);
  const [only, ...others] = strata.filter(({ sizes }) => sizes.selected > 0 && sizes.others > 0);
  if (!only) return 1;
  return others.length === 0
    ? computeTailProbability(only, only.sizes)
    : computeStratifiedProbability([only, ...others], logProbability);
}

/**
 * Returns the smallest probability that each value could have. This is its probability if as many or as few of its
 * carriers as possible are selected.
 */
function computeLeastProbabilities(values: readonly TestedValue[], sizes: CarrierCounts): number[] {
  const known = new Map<number, number>();
  return values.map(({ selected, others, strata }) => {
    if (strata) return computeLeastProbability(strata);
    const carriers = selected + others;
    const p = known.get(carriers) ?? computeLeastProbability([{ selected, others, sizes }]);
    known.set(carriers, p);
    return p;
  });
}

function computeLeastProbability(strata: readonly Stratum[]): number {
  let [all, none] = [0, 0];
  for (const { selected, others, sizes } of strata) {
    const carriers = selected + others;
    all += logProbability(Math.min(carriers, sizes.selected), carriers, sizes);
    none += logProbability(Math.max(0, carriers - sizes.others), carriers, sizes);
  }
  return Math.min(1, 2 * Math.exp(Math.min(all, none)));
}

/** Returns the smallest k, at least 1, for which at most k values can be found with ALPHA / k. */
function countTestable(sorted: readonly number[]): number {
  let k = 1;
  for (let count = 0; ; k++) {
    count = findFirstAbove(sorted, ALPHA / k);
    if (count <= k) return k;
  }
}

/**
 * Returns the two-sided probability of the number of selected carriers: twice the probability of at least this number
 * or of at most this number, whichever is smaller.
 */
export function computeTailProbability({ selected, others }: CarrierCounts, sizes: CarrierCounts): number {
  const carriers = selected + others;
  const rows = sizes.selected + sizes.others;
  const isMany = selected * rows >= carriers * sizes.selected;
  const end = isMany ? Math.min(carriers, sizes.selected) : Math.max(0, carriers - sizes.others);
  const step = isMany ? 1 : -1;
  let [term, sum] = [1, 1];
  // The terms decrease, so the loop ends when they no longer change the sum.
  for (let count = selected; count !== end && term > sum * 1e-17; count += step) {
    const [lost, gained] = isMany
      ? [(count + 1) * (sizes.others - carriers + count + 1), (carriers - count) * (sizes.selected - count)]
      : [(carriers - count + 1) * (sizes.selected - count + 1), count * (sizes.others - carriers + count)];
    term *= gained / lost;
    sum += term;
  }
  return Math.min(1, 2 * sum * Math.exp(logProbability(selected, carriers, sizes)));
}

/** Returns the logarithm of the probability that this many carriers are selected. */
function logProbability(count: number, carriers: number, sizes: CarrierCounts): number {
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

/** Uses Stirling's series, whose error is below 1e-15 for numbers of at least 64. */
function logFactorial(n: number): number {
  if (n < SMALL_FACTORIALS.length) return SMALL_FACTORIALS[n]!;
  const square = n * n;
  const series = (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / n;
  return (n + 0.5) * Math.log(n) - n + 0.5 * Math.log(2 * Math.PI) + series;
}
