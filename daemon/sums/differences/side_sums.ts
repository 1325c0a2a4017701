/** Sums for the two sides of a comparison. */
import { growArray } from '../../base/growing_array.ts';
import { createExactSum, type ExactSum } from '../exact_sum.ts';
import { createMedianFinder, type MedianFinder } from '../median.ts';
import { type DurationPart, PARTS, type Side } from './comparison.ts';

export interface SideSums {
  count: number;
  readonly duration: ExactSum;
  /** One sum for each part, in the order of PARTS. */
  readonly parts: readonly ExactSum[];
  readonly medianDuration: MedianFinder;
  /** One median for each part, in the order of PARTS. */
  readonly medianParts: readonly MedianFinder[];
}

export function createSideSums(): SideSums {
  return {
    count: 0,
    duration: createExactSum(),
    parts: PARTS.map(() => createExactSum()),
    medianDuration: createMedianFinder(),
    medianParts: PARTS.map(() => createMedianFinder()),
  };
}

export function sumSide({ count, duration, parts, medianDuration, medianParts }: SideSums): Side {
  return {
    count,
    durationNs: duration.total(),
    parts: nameParts((i) => parts[i]!.total()),
    median: { durationNs: medianDuration.find(count), parts: nameParts((i) => medianParts[i]!.find(count)) },
  };
}

function nameParts(getNs: (part: number) => bigint): Record<DurationPart, bigint> {
  return Object.fromEntries(PARTS.map((part, i) => [part, getNs(i)])) as Record<DurationPart, bigint>;
}

export interface GrowingCounts {
  add(at: number): void;
  readonly values: Float64Array;
}

export function createGrowingCounts(): GrowingCounts {
  let values = new Float64Array(1024);
  return {
    add(at) {
      if (at >= values.length) values = growArray(values, at + 1);
      values[at]!++;
    },
    get values() {
      return values;
    },
  };
}
