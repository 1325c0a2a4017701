/**
 * Computes how probable a number of selected carriers is, added up over several strata, if the selection in each
 * stratum is random.
 */
export interface CarrierCounts {
  selected: number;
  others: number;
}

export interface Stratum extends CarrierCounts {
  sizes: CarrierCounts;
}

/** Returns the logarithm of the probability that this many of the carriers are selected. */
type LogProbability = (count: number, carriers: number, sizes: CarrierCounts) => number;

/** Probabilities below this count as 0. */
const PROBABILITY_MIN = 1e-30;
/**
 * Above this variance, the normal distribution is used: it is exact enough, and adding up many wide strata exactly
 * would take seconds.
 */
const NORMAL_VARIANCE = 2500;

interface Distribution {
  /** The number of carriers to which the first probability belongs. */
  from: number;
  probabilities: readonly number[];
}

/**
 * Returns the two-sided probability of the number of selected carriers: twice the probability of at least this number
 * or of at most this number, whichever is smaller. Each stratum must have both sides.
 */
export function computeStratifiedProbability(strata: readonly Stratum[], logProbability: LogProbability): number {
  const selected = strata.reduce((sum, one) => sum + one.selected, 0);
  const mean = strata.reduce((sum, one) => sum + computeMean(one), 0);
  const variance = strata.reduce((sum, one) => sum + computeVariance(one), 0);
  if (variance > NORMAL_VARIANCE) return computeNormalTails((Math.abs(selected - mean) - 0.5) / Math.sqrt(variance));
  const { from, probabilities } = strata.map((one) => computeDistribution(one, logProbability)).reduce(convolve);
  const place = selected - from;
  const sumProbabilities = (some: readonly number[]) => some.reduce((sum, p) => sum + p, 0);
  const many = sumProbabilities(probabilities.slice(Math.max(place, 0)));
  const few = sumProbabilities(probabilities.slice(0, Math.max(place + 1, 0)));
  return Math.min(1, 2 * Math.min(many, few));
}

function computeMean({ selected, others, sizes }: Stratum): number {
  return ((selected + others) * sizes.selected) / (sizes.selected + sizes.others);
}

function computeVariance({ selected, others, sizes }: Stratum): number {
  const carriers = selected + others;
  const rows = sizes.selected + sizes.others;
  const share = (sizes.selected / rows) * (sizes.others / rows);
  return (carriers * share * (rows - carriers)) / (rows - 1);
}

function computeDistribution(stratum: Stratum, logProbability: LogProbability): Distribution {
  const { selected, others, sizes } = stratum;
  const carriers = selected + others;
  const least = Math.max(0, carriers - sizes.others);
  const most = Math.min(carriers, sizes.selected);
  const middle = Math.min(Math.max(Math.round(computeMean(stratum)), least), most);
  const computeTerm = (count: number) => Math.exp(logProbability(count, carriers, sizes));
  const [below, above]: [number[], number[]] = [[], []];
  for (let count = middle - 1, p = 1; count >= least && p > PROBABILITY_MIN; count--) {
    p = computeTerm(count);
    below.push(p);
  }
  for (let count = middle + 1, p = 1; count <= most && p > PROBABILITY_MIN; count++) {
    p = computeTerm(count);
    above.push(p);
  }
  return { from: middle - below.length, probabilities: [...below.reverse(), computeTerm(middle), ...above] };
}

function convolve(a: Distribution, b: Distribution): Distribution {
  const sums = new Array<number>(a.probabilities.length + b.probabilities.length - 1).fill(0);
  for (let i = 0; i < a.probabilities.length; i++)
    for (let j = 0; j < b.probabilities.length; j++) sums[i + j]! += a.probabilities[i]! * b.probabilities[j]!;
  const isSome = (p: number) => p > PROBABILITY_MIN;
  const first = Math.max(sums.findIndex(isSome), 0);
  return { from: a.from + b.from + first, probabilities: sums.slice(first, sums.findLastIndex(isSome) + 1) };
}

/**
 * Returns both tails of the normal distribution beyond a number of standard deviations, to seven digits (Numerical
 * Recipes).
 */
function computeNormalTails(deviations: number): number {
  const z = Math.max(deviations, 0) / Math.SQRT2;
  const t = 1 / (1 + z / 2);
  const terms = [
    ...[-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806],
    ...[0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277],
  ];
  return t * Math.exp(terms.reduceRight((sum, term) => sum * t + term, 0) - z * z);
}
