/** A sum of integers as doubles that stays exact: it moves to a bigint before a double would round it. */
export interface ExactSum {
  /** Adds an integer from 0 to 2^53 - 1. */
  add(value: number): void;
  addLarge(value: bigint): void;
  total(): bigint;
}

export function exactSum(): ExactSum {
  let settled = 0n;
  let pending = 0;

  function settle(): void {
    settled += BigInt(pending);
    pending = 0;
  }

  return {
    add(value) {
      if (pending + value > Number.MAX_SAFE_INTEGER) settle();
      pending += value;
    },
    addLarge(value) {
      settled += value;
    },
    total() {
      settle();
      return settled;
    },
  };
}
