/** Bounds of 64-bit integers, and functions for the minimum and the maximum of two integers. */

export const I64_MIN = -(2n ** 63n);
export const I64_MAX = 2n ** 63n - 1n;
export const U64_MAX = 2n ** 64n - 1n;

export function min(a: bigint, b: bigint): bigint {
  return b < a ? b : a;
}

export function max(a: bigint, b: bigint): bigint {
  return b > a ? b : a;
}
