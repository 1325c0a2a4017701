/**
 * Event numbers after a loss of power: the numbers of lost events may be known elsewhere, and no number is given twice.
 * So the next writer begins at the next multiple of 2^32, and it is not known how many events had the numbers before
 * that.
 */

/** More numbers than any log has events. */
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
