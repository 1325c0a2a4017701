/** The wall clock. */

/**
 * Returns nanoseconds since the epoch, rounded up to the next millisecond, so that no event recorded so far is later.
 * Date.now() rounds down.
 */
export function nowNs(): bigint {
  return BigInt(Date.now() + 1) * 1_000_000n;
}
