/**
 * Counts of 64-bit values in buckets that grow with the value (log-linear, like HDR histograms), as counted by
 * native/columns/sums.cc. Each power of two has 64 buckets, so a value is known to within 1/128 of its size, and values
 * below 128 are known exactly. Histograms of different events can be added up.
 *
 *   value    0 ... 63 | 64 ... 127 | 128 130 ... 254 | 256 260 ...
 *   block        0    |     1      |        2        |      3
 */
const BLOCK_BITS = 6;
const BLOCK_SLOTS = 2 ** BLOCK_BITS;
/** Number of blocks that cover all 64 bits. */
const BLOCKS = 64 - BLOCK_BITS + 1;

export interface Histogram {
  count: number;
  /** The maximum value, which is exact. */
  max: bigint;
  /**
   * Counts by block. A block is created when its first value is added, because values of one kind of event are close
   * together.
   */
  readonly blocks: (Float64Array | undefined)[];
}

export function createHistogram(): Histogram {
  return { count: 0, max: 0n, blocks: new Array(BLOCKS).fill(undefined) };
}

/** Builds a histogram from the slots that have counts; `max` is the largest value. */
export function buildHistogram(max: bigint, slots: ArrayLike<number>, counts: ArrayLike<number>): Histogram {
  const histogram = createHistogram();
  histogram.max = max;
  for (let i = 0; i < slots.length; i++) {
    const block = Math.floor(slots[i]! / BLOCK_SLOTS);
    histogram.blocks[block] ??= new Float64Array(BLOCK_SLOTS);
    histogram.blocks[block][slots[i]! % BLOCK_SLOTS]! += counts[i]!;
    histogram.count += counts[i]!;
  }
  return histogram;
}

/** Adds the counts of `more` to `histogram`. */
export function addHistogram(histogram: Histogram, more: Histogram): void {
  histogram.count += more.count;
  if (more.max > histogram.max) histogram.max = more.max;
  for (const [block, counts] of more.blocks.entries()) {
    if (!counts) continue;
    const slots = histogram.blocks[block] ?? new Float64Array(BLOCK_SLOTS);
    for (let slot = 0; slot < BLOCK_SLOTS; slot++) slots[slot]! += counts[slot]!;
    histogram.blocks[block] = slots;
  }
}

/**
 * Returns a quantile: the smallest value for which at least `share` (above 0, up to 1) of all values are not larger.
 * The result is the middle of the value's bucket.
 */
export function quantile(histogram: Histogram, share: number): bigint {
  const rank = Math.ceil(share * histogram.count);
  const { max } = histogram;
  let below = 0;
  for (const [block, slots] of histogram.blocks.entries()) {
    if (!slots) continue;
    for (let slot = 0; slot < BLOCK_SLOTS; slot++) {
      below += slots[slot]!;
      if (below < rank) continue;
      const value = computeMiddle(block, slot);
      return value < max ? value : max;
    }
  }
  return max;
}

function computeMiddle(block: number, slot: number): bigint {
  if (block < 2) return BigInt(block * BLOCK_SLOTS + slot);
  const shift = BigInt(block - 1);
  return (BigInt(BLOCK_SLOTS + slot) << shift) + (1n << (shift - 1n));
}
