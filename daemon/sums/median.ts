/**
 * Finds medians of 64-bit values that are added one by one, in memory that does not grow with their number. The values
 * are counted in the buckets of a histogram, so a median is known to within 1/128 of its size.
 */
import { buildHistogram, quantile } from './histogram.ts';

const WORD = 2 ** 32;
/** Each power of two has 64 buckets, and each value below 64 has its own bucket. */
const SLOT_BITS = 6;
const SLOTS = 64 * (64 - SLOT_BITS + 1);

export interface MedianFinder {
  add(value: number): void;
  addWords(low: number, high: number): void;
  /** Returns the median of `count` values; values that were not added count as 0. Returns 0 if `count` is 0. */
  find(count: number): bigint;
}

export function createMedianFinder(): MedianFinder {
  const counts = new Float64Array(SLOTS);
  let added = 0;
  let max = 0;

  function addWords(low: number, high: number): void {
    counts[findSlot(low >>> 0, high)]!++;
    added++;
    const value = high * WORD + (low >>> 0);
    if (value > max) max = value;
  }

  return {
    add: (value) => addWords(value % WORD, Math.floor(value / WORD)),
    addWords,
    find(count) {
      const rank = Math.ceil(count / 2) - (count - added);
      if (rank <= 0 || added === 0) return 0n;
      const slots = Array.from(counts.keys());
      return quantile(buildHistogram(BigInt(max), slots, counts), (rank - 0.5) / added);
    },
  };
}

/** Returns the number of the bucket of a value. */
function findSlot(low: number, high: number): number {
  if (high === 0 && low < 64) return low;
  const power = high === 0 ? 31 - Math.clz32(low) : 63 - Math.clz32(high);
  const shift = power - SLOT_BITS;
  const top =
    shift >= 32 ? high >>> (shift - 32) : shift === 0 ? low : ((high << (32 - shift)) | (low >>> shift)) >>> 0;
  return (shift + 1) * 64 + (top & 63);
}
