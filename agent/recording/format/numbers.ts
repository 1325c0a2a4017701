/**
 * The numbers behind a loss of power: those of the events that it took may be known elsewhere, and none is given twice.
 * So the next writer begins at the next multiple of 2^32, and how many events had the numbers before it is not known.
 */

/** More than any log holds. */
const STEP = 2 ** 32;

export function computeRestartNumber(number: number): number {
  return (Math.floor(number / STEP) + 1) * STEP;
}

/** How many of the numbers [from, end) are known to have been given, if all below `seen` were. */
export function countGivenNumbers(from: number, end: number, seen = 0): number {
  const step = Math.floor(end / STEP) * STEP;
  if (from >= step) return Math.max(0, end - from);
  return end - step + (seen > from ? countGivenNumbers(from, Math.min(seen, step)) : 0);
}
