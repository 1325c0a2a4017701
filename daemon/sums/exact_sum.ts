/**
 * An exact sum of integers: values are added to a double, which is added to a bigint before the double would be
 * rounded.
 */
import { wordsToBigint } from '../../agent/recording/words64.ts';

export interface ExactSum {
  /** Adds an integer from 0 to 2^53 - 1. */
  add(value: number): void;
  addLarge(value: bigint): void;
  /** Adds an integer of 64 bits. */
  addWords(low: number, high: number): void;
  total(): bigint;
}

const WORD = 2 ** 32;
/** Integers below 2^53 have a high word below this limit. */
const SMALL_HIGH = 2 ** 21;

export function createExactSum(): ExactSum {
  let settled = 0n;
  let pending = 0;

  function settle(): void {
    settled += BigInt(pending);
    pending = 0;
  }

  function add(value: number): void {
    if (pending + value > Number.MAX_SAFE_INTEGER) settle();
    pending += value;
  }

  return {
    add,
    addWords(low, high) {
      if (high < SMALL_HIGH) add(high * WORD + low);
      else settled += wordsToBigint(low, high);
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
