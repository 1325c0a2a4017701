/** The wall clock. */

/**
 * Returns nanoseconds since the epoch, rounded up to the next millisecond, because Date.now() rounds down: no event
 * that has been recorded so far is later.
 */
export function nowNs(): bigint {
  return BigInt(Date.now() + 1) * 1_000_000n;
}
