/** Sums of calls with the same name, target and service, and a function that joins two lists of such sums. */

export interface CallTotals {
  call: string;
  /** File or device of the calls; null if the calls have no target, or if it is unknown. */
  target: string | null;
  service: string;
  count: number;
  failed: number;
  totalNs: bigint;
  p50Ns: bigint;
  p99Ns: bigint;
}

export interface JoinedRow {
  call: string;
  target: string | null;
  service: string;
  /** Totals of the calls on side A; null if only side B has such calls. */
  a: CallTotals | null;
  b: CallTotals | null;
  /**
   * Total time of B minus total time of A, in nanoseconds. If the windows differ in length, the totals are per second.
   */
  changeNs: bigint;
}

/** Lengths of the compared windows, in nanoseconds. */
export interface Lengths {
  a: bigint;
  b: bigint;
}

const SECOND_NS = 1_000_000_000n;

/**
 * Joins the sums of both sides, with the largest change first. If `lengths` of windows are given, changes are per
 * second of each window.
 */
export function joinSums(a: readonly CallTotals[], b: readonly CallTotals[], lengths: Lengths | null): JoinedRow[] {
  const rows = new Map<string, JoinedRow>();
  for (const [side, sums] of [['a', a] as const, ['b', b] as const])
    for (const one of sums) {
      const { call, target, service } = one;
      const key = JSON.stringify([call, target, service]);
      const row = rows.get(key) ?? { call, target, service, a: null, b: null, changeNs: 0n };
      rows.set(key, { ...row, [side]: one });
    }
  for (const row of rows.values())
    row.changeNs =
      computeShareNs(row.b, lengths ? lengths.b : null) - computeShareNs(row.a, lengths ? lengths.a : null);
  return [...rows.values()].sort((one, other) => compareSizes(other.changeNs, one.changeNs));
}

function computeShareNs(sums: CallTotals | null, lengthNs: bigint | null): bigint {
  const totalNs = sums?.totalNs ?? 0n;
  return lengthNs === null ? totalNs : (totalNs * SECOND_NS) / lengthNs;
}

const computeMagnitude = (ns: bigint) => (ns < 0n ? -ns : ns);

function compareSizes(one: bigint, other: bigint): number {
  const a = computeMagnitude(one);
  const b = computeMagnitude(other);
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Returns a quantile: the value of rank `ceil(share * count)`, where the smallest value has rank 1. */
export function selectQuantile<Value>(ascending: ArrayLike<Value>, share: number): Value {
  return ascending[Math.max(Math.ceil(share * ascending.length), 1) - 1]!;
}
