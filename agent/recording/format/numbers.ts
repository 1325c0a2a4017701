/**
 * Event numbers after a power loss. Other systems may have seen the numbers of lost events, and a number must never be
 * assigned twice. So the next writer begins at the next multiple of 2^32, and the number of lost events is unknown.
 */

/** Distance between restart numbers, larger than the number of events in any write-ahead log. */
const STEP = 2 ** 32;

export function computeRestartNumber(number: number): number {
  return (Math.floor(number / STEP) + 1) * STEP;
}

/** Returns how many numbers in [from, end) are known to be assigned. `seen`: all numbers below it were assigned. */
export function countGivenNumbers(from: number, end: number, seen = 0): number {
  const step = Math.floor(end / STEP) * STEP;
  if (from >= step) return Math.max(0, end - from);
  return end - step + (seen > from ? countGivenNumbers(from, Math.min(seen, step)) : 0);
}
