/** The wall clock. */

/**
 * The wall clock, nanoseconds since the epoch, rounded up to the millisecond that Date.now() would say next: what is
 * recorded by now is no later, and a window of this millisecond has passed.
 */
export function nowNs(): bigint {
  return BigInt(Date.now() + 1) * 1_000_000n;
}
