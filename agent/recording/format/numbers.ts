/**
 * Event numbers after a loss of power. The numbers of lost events may be known elsewhere, and no number may be assigned
 * twice. So the next writer begins at the next multiple of 2^32, and it is unknown how many events had the skipped
 * numbers.
 */

/** A step that is larger than the number of events in any log. */
const STEP = 2 ** 32;

export function computeRestartNumber(number: number): number {
  return (Math.floor(number / STEP) + 1) * STEP;
}

/** Counts the numbers in [from, end) that are known to have been assigned, if all numbers below `seen` were. */
export function countGivenNumbers(from: number, end: number, seen = 0): number {
  const step = Math.floor(end / STEP) * STEP;
  if (from >= step) return Math.max(0, end - from);
  return end - step + (seen > from ? countGivenNumbers(from, Math.min(seen, step)) : 0);
}
