/** Times in nanoseconds, compared. */

export function earlier(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

export function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
