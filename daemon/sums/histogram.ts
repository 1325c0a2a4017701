/**
 * Counts 64-bit values in buckets that grow with the value (log-linear, like HDR histograms): each power of two has 64
 * buckets, so a value is known to within 1/128 of itself, and exactly below 128. Histograms of parts add up to that of
 * the whole.
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
  /** The exact maximum, as two 32-bit words. */
  maxHigh: number;
  maxLow: number;
  /** Blocks are allocated on demand: values of one kind of event are close together. */
  readonly blocks: (Float64Array | undefined)[];
}

export function newHistogram(): Histogram {
  return { count: 0, maxHigh: 0, maxLow: 0, blocks: new Array(BLOCKS).fill(undefined) };
}

/** `high` and `low` are unsigned 32-bit words. */
export function record(histogram: Histogram, high: number, low: number): void {
  const bits = high === 0 ? 32 - Math.clz32(low) : 64 - Math.clz32(high);
  const shift = Math.max(0, bits - BLOCK_BITS - 1);
  const top =
    shift === 0 ? low : shift >= 32 ? high >>> (shift - 32) : ((high << (32 - shift)) | (low >>> shift)) >>> 0;
  const block = shift + (top >>> BLOCK_BITS);
  let slots = histogram.blocks[block];
  if (!slots) {
    slots = new Float64Array(BLOCK_SLOTS);
    histogram.blocks[block] = slots;
  }
  slots[top & (BLOCK_SLOTS - 1)]!++;
  histogram.count++;
  if (high > histogram.maxHigh || (high === histogram.maxHigh && low > histogram.maxLow)) {
    histogram.maxHigh = high;
    histogram.maxLow = low;
  }
}

/** Adds the counts of `more`. */
export function addHistogram(histogram: Histogram, more: Histogram): void {
  histogram.count += more.count;
  if (maxOf(more) > maxOf(histogram)) {
    histogram.maxHigh = more.maxHigh;
    histogram.maxLow = more.maxLow;
  }
  for (const [block, counts] of more.blocks.entries()) {
    if (!counts) continue;
    const slots = histogram.blocks[block] ?? new Float64Array(BLOCK_SLOTS);
    for (let slot = 0; slot < BLOCK_SLOTS; slot++) slots[slot]! += counts[slot]!;
    histogram.blocks[block] = slots;
  }
}

export function maxOf({ maxHigh, maxLow }: Histogram): bigint {
  return (BigInt(maxHigh) << 32n) | BigInt(maxLow);
}

/**
 * Returns the smallest value that at least this share (above 0, up to 1) of all values do not exceed, as the middle of
 * its bucket.
 */
export function quantile(histogram: Histogram, share: number): bigint {
  const rank = Math.ceil(share * histogram.count);
  const max = maxOf(histogram);
  let below = 0;
  for (const [block, slots] of histogram.blocks.entries()) {
    if (!slots) continue;
    for (let slot = 0; slot < BLOCK_SLOTS; slot++) {
      below += slots[slot]!;
      if (below < rank) continue;
      const value = middleOf(block, slot);
      return value < max ? value : max;
    }
  }
  return max;
}

function middleOf(block: number, slot: number): bigint {
  if (block < 2) return BigInt(block * BLOCK_SLOTS + slot);
  const shift = BigInt(block - 1);
  return (BigInt(BLOCK_SLOTS + slot) << shift) + (1n << (shift - 1n));
}
