/** The wall clock. */

/**
 * Returns nanoseconds since the epoch, rounded up to the next millisecond of Date.now(): no event that has been
 * recorded so far is later, and a window up to this time has passed.
 */
export function nowNs(): bigint {
  return BigInt(Date.now() + 1) * 1_000_000n;
}
