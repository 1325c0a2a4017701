/**
 * Compares a sequence of recorded calls with a sequence of made calls, in which calls may be missing, new or of other
 * sizes. Considers all possible alignments to compute how likely each made call is the recorded call that it was
 * matched with. The algorithm is forward-backward, limited to a band around the runner's matches. Unlike the runner, it
 * sees both sequences to their ends.
 */

/** The size of a call that has none, such as a sync, or whose size is unknown. */
export const NO_SIZE = -1;

export interface Sequences {
  /** Sizes of the recorded calls in bytes, or NO_SIZE. */
  readonly planned: Float64Array;
  /** Sizes of the made calls in bytes, or NO_SIZE. */
  readonly made: Float64Array;
  /** 1 for a sync, which never matches a write. */
  readonly isPlannedSync: Uint8Array;
  readonly isMadeSync: Uint8Array;
  /** For each made call, the index of the recorded call that it was matched with; -1 if it was not matched. */
  readonly taken: Int32Array;
}

export interface Likely {
  /** For each made call, the likelihood that it is the recorded call it was matched with; 0 if it was not matched. */
  readonly likelihood: Float64Array;
  /** Logarithm of the likelihood of all made calls, given the recorded calls. */
  readonly log: number;
}

/** Number of recorded calls in the band on each side of the runner's position. */
const BAND = 128;
/** Number of made calls whose likelihoods are in memory at the same time. */
const CHUNK = 2048;
/** Initial estimate of the number of missing calls in a sequence, and of the number of new calls. */
const EDITS_FIRST = 0.1;
const ROUNDS = 3;
/** Likelihood that a build stops early, so that the remaining recorded calls are all missing. */
const ENDS_EARLY = 1e-4;
/** Logarithm of the likelihood of a call that no alignment reaches. The comparison continues after such a call. */
const LOST_LOG = -50;
const NEAR_DECAY = 0.5;
const FAR_DECAY = 0.97;
const FAR_SHARE = 0.3;
/**
 * A made size counts as near the planned size if their relative difference is below NEAR_SHARE, or if they differ by at
 * most NEAR_BYTES.
 */
const NEAR_SHARE = 0.12;
const NEAR_BYTES = 8;
const WIDTH_BYTES = 12;
const NOT_NEAR = 0.01;
const OTHER_SIZE_MIN = 0.02;
const OTHER_SIZE_MAX = 0.6;

interface Model {
  gap: number;
  extra: number;
  otherSize: number;
  width: number;
  /** For each made call, the likelihood that a new call has this kind and size. */
  asNew: Float64Array;
}

/**
 * The band of recorded calls with which each made call is compared. `from` has the index of the band's first call, for
 * each made call and for the end of the sequence.
 */
interface AlignmentBand {
  from: Int32Array;
  width: number;
}

export function findLikelyAlignment(sequences: Sequences): Likely {
  const band = computeBand(sequences);
  const model = estimateFirstModel(sequences);
  for (let round = 1; ; round++) {
    const { found, matched, gaps } = pass(sequences, band, model);
    if (round === ROUNDS) return found;
    const planned = sequences.planned.length;
    const made = sequences.made.length;
    model.extra = (EDITS_FIRST + made - matched) / (made + 1);
    model.gap = (EDITS_FIRST + gaps) / (planned + 1);
  }
}

/** Computes the band around the recorded calls that the runner has matched. */
function computeBand({ planned, made, taken }: Sequences): AlignmentBand {
  const from = new Int32Array(made.length + 1);
  const width = Math.min(planned.length + 1, 2 * BAND + 1);
  const last = planned.length + 1 - width;
  let place = 0;
  for (let call = 0; call <= made.length; call++) {
    from[call] = Math.max(0, Math.min(place - BAND, last));
    if (call < made.length && taken[call]! >= 0) place = taken[call]! + 1;
  }
  return { from, width };
}

function estimateFirstModel(sequences: Sequences): Model {
  const { planned, made, isPlannedSync, isMadeSync, taken } = sequences;
  const length = Math.max(planned.length, made.length) + 1;
  let [matched, other, width, near] = [0, 0, 0.03 * 4, 4];
  for (const [call, place] of taken.entries()) {
    if (place < 0 || planned[place] === NO_SIZE || made[call] === NO_SIZE) continue;
    matched++;
    if (planned[place] === made[call]) continue;
    other++;
    if (!isNear(planned[place]!, made[call]!)) continue;
    width += computeRelativeDifference(planned[place]!, made[call]!);
    near++;
  }
  const counts = new Map<number, number>();
  for (const [place, size] of planned.entries())
    if (!isPlannedSync[place]) counts.set(size, (counts.get(size) ?? 0) + 1);
  const syncs = isPlannedSync.reduce((sum, one) => sum + one, 0);
  const asNew = Float64Array.from(made, (size, call) => {
    if (isMadeSync[call]) return (syncs + 1) / length;
    return 0.5 * ((counts.get(size) ?? 0) / length) + computeSizeLikelihood(size);
  });
  return {
    gap: EDITS_FIRST / length,
    extra: EDITS_FIRST / length,
    otherSize: Math.min(Math.max((other + 0.2) / (matched + 1), OTHER_SIZE_MIN), OTHER_SIZE_MAX),
    width: width / near,
    asNew,
  };
}

/**
 * Returns the likelihood of a size. It falls with the inverse of the size, so that each order of magnitude is equally
 * likely.
 */
const computeSizeLikelihood = (size: number) => 0.025 / (Math.max(size, 0) + 1);

const computeRelativeDifference = (planned: number, made: number) =>
  (2 * Math.abs(planned - made)) / (planned + made + 2);

function isNear(planned: number, made: number): boolean {
  return Math.abs(planned - made) <= NEAR_BYTES || computeRelativeDifference(planned, made) < NEAR_SHARE;
}

function density(difference: number, width: number): number {
  const distance = 1 + (difference / width) ** 2;
  return 2 / (Math.PI * width * distance * distance);
}

function computeLikeness(planned: number, made: number, { otherSize, width }: Model): number {
  if (planned === NO_SIZE || made === NO_SIZE) return 1;
  if (planned === made) return 1 - otherSize;
  if (!isNear(planned, made)) return otherSize * NOT_NEAR * computeSizeLikelihood(made);
  const bytes = Math.abs(planned - made);
  return (otherSize * (density(bytes, WIDTH_BYTES) + density(bytes, 1 + width * planned))) / 2;
}

/** Writes into `likely` how well the made call fits each recorded call in its band. */
function compare(sequences: Sequences, band: AlignmentBand, model: Model, call: number, likely: Float64Array): void {
  const { planned, made, isPlannedSync, isMadeSync } = sequences;
  const from = band.from[call]!;
  for (let at = 0; at < band.width; at++) {
    const place = from + at;
    const isOfKind = place < planned.length && isPlannedSync[place] === isMadeSync[call];
    likely[at] = isOfKind ? computeLikeness(planned[place]!, made[call]!, model) : 0;
  }
}

interface AlignmentPass {
  found: Likely;
  /** Expected number of made calls that match a recorded call, and expected number of gaps (runs of missing calls). */
  matched: number;
  gaps: number;
}

function pass(sequences: Sequences, band: AlignmentBand, model: Model): AlignmentPass {
  const { made, taken, planned } = sequences;
  const count = made.length;
  const { from, width } = band;
  const likelihood = new Float64Array(count);
  const chunks = Math.ceil(count / CHUNK);
  const starts = Array.from({ length: chunks }, () => new Float64Array(width));
  const before = Array.from({ length: Math.min(CHUNK, count) + 1 }, () => new Float64Array(width));
  const likely = new Float64Array(width);
  const arrival = new Float64Array(width);
  let log = 0;
  let [matched, gaps] = [0, 0];

  /**
   * Computes the forward likelihoods before each call of a chunk and at its end. Returns the logarithm of the
   * likelihood of the chunk's calls.
   */
  function forward(chunk: number): number {
    let sum = 0;
    before[0]!.set(starts[chunk]!);
    const first = chunk * CHUNK;
    const end = Math.min((chunk + 1) * CHUNK, count);
    for (let call = first; call < end; call++) {
      compare(sequences, band, model, call, likely);
      sum += stepForward(before[call - first]!, before[call - first + 1]!, call);
    }
    if (chunk + 1 < chunks) starts[chunk + 1]!.set(before[end - first]!);
    return sum;
  }

  function arrive(ways: Float64Array): void {
    let [near, far] = [0, 0];
    const nearStep = model.gap * (1 - FAR_SHARE) * (1 - NEAR_DECAY);
    const farStep = model.gap * FAR_SHARE * (1 - FAR_DECAY);
    for (let at = 0; at < width; at++) {
      arrival[at] = ways[at]! * (1 - model.gap) * (1 - model.extra) + near + far;
      near = near * NEAR_DECAY + ways[at]! * nearStep;
      far = far * FAR_DECAY + ways[at]! * farStep;
    }
  }

  /**
   * Computes the forward likelihoods after one call, normalized to the sum 1. Returns the logarithm of the sum before
   * the normalization.
   */
  function stepForward(ways: Float64Array, next: Float64Array, call: number): number {
    const shift = from[call + 1]! - from[call]!;
    const asNew = model.extra * model.asNew[call]!;
    next.fill(0);
    arrive(ways);
    let sum = 0;
    for (let at = 0; at < width; at++) {
      const stays = at - shift;
      if (stays >= 0 && stays < width) next[stays]! += ways[at]! * asNew;
      if (stays + 1 >= 0 && stays + 1 < width) next[stays + 1]! += arrival[at]! * likely[at]!;
    }
    for (let at = 0; at < width; at++) sum += next[at]!;
    if (sum === 0) {
      // No alignment reaches this call, so the comparison starts over from here.
      next.fill(1 / width);
      return LOST_LOG;
    }
    for (let at = 0; at < width; at++) next[at]! /= sum;
    return Math.log(sum);
  }

  if (chunks > 0) starts[0]![0] = 1;
  for (let chunk = 0; chunk < chunks; chunk++) log += forward(chunk);
  const atEnd = new Float64Array(width);
  for (let at = 0; at < width; at++) {
    const missing = planned.length - from[count]! - at;
    if (missing < 0) continue;
    const near = NEAR_DECAY ** (missing - 1) * (1 - NEAR_DECAY);
    const far = FAR_DECAY ** (missing - 1) * (1 - FAR_DECAY);
    atEnd[at] = missing === 0 ? 1 : model.gap * ((1 - FAR_SHARE) * near + FAR_SHARE * far + ENDS_EARLY);
  }
  const last = before[count === 0 ? 0 : count - (chunks - 1) * CHUNK];
  const ending = last ? last.reduce((sum, way, at) => sum + way * atEnd[at]!, 0) : 1;
  log += ending > 0 ? Math.log(ending) : LOST_LOG;

  let after = atEnd;
  let previous = new Float64Array(width);
  for (let chunk = chunks - 1; chunk >= 0; chunk--) {
    if (chunk < chunks - 1) forward(chunk);
    for (let call = Math.min((chunk + 1) * CHUNK, count) - 1; call >= chunk * CHUNK; call--) {
      compare(sequences, band, model, call, likely);
      stepBackward(before[call - chunk * CHUNK]!, call);
      [after, previous] = [previous, after];
    }
  }
  return { found: { likelihood, log }, matched, gaps };

  /** Computes the backward likelihoods before `call` from those after it. */
  function stepBackward(ways: Float64Array, call: number): void {
    const shift = from[call + 1]! - from[call]!;
    const asNew = model.extra * model.asNew[call]!;
    const direct = (1 - model.gap) * (1 - model.extra);
    const nearStep = model.gap * (1 - FAR_SHARE) * (1 - NEAR_DECAY);
    const farStep = model.gap * FAR_SHARE * (1 - FAR_DECAY);
    const getAfter = (at: number) => (at >= 0 && at < width ? after[at]! : 0);
    arrive(ways);
    let [total, ofCall, ofGaps, near, far, peak] = [0, 0, 0, 0, 0, 0];
    const place = taken[call]! - from[call]!;
    for (let at = width - 1; at >= 0; at--) {
      const matches = likely[at]! * getAfter(at - shift + 1);
      previous[at] = getAfter(at - shift) * asNew + matches * direct + near + far;
      near = near * NEAR_DECAY + matches * nearStep;
      far = far * FAR_DECAY + matches * farStep;
      // Total weight of the alignments that match this made call with this recorded call.
      const way = arrival[at]! * matches;
      total += way + ways[at]! * getAfter(at - shift) * asNew;
      ofCall += way;
      ofGaps += (arrival[at]! - ways[at]! * direct) * matches;
      if (at === place) likelihood[call] = way;
      peak = Math.max(peak, previous[at]!);
    }
    if (total > 0) {
      likelihood[call]! /= total;
      matched += ofCall / total;
      gaps += ofGaps / total;
    }
    if (peak === 0) previous.fill(1);
    else for (let at = 0; at < width; at++) previous[at]! /= peak;
  }
}
