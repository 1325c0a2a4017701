/** Sums for the two sides of a comparison. */
import { createExactSum, type ExactSum } from '../exact_sum.ts';
import { type DurationPart, PARTS, type Side } from './comparison.ts';

export interface SideSums {
  count: number;
  readonly duration: ExactSum;
  /** One sum for each part, in the order of PARTS. */
  readonly parts: readonly ExactSum[];
}

export function createSideSums(): SideSums {
  return { count: 0, duration: createExactSum(), parts: PARTS.map(() => createExactSum()) };
}

export function sumSide({ count, duration, parts }: SideSums): Side {
  const totals = PARTS.map((part, i) => [part, parts[i]!.total()] as const);
  return { count, durationNs: duration.total(), parts: Object.fromEntries(totals) as Record<DurationPart, bigint> };
}

/** An array of counts that grows. */
export interface GrowingCounts {
  add(at: number): void;
  readonly values: Float64Array;
}

export function createGrowingCounts(): GrowingCounts {
  let values = new Float64Array(1024);
  return {
    add(at) {
      if (at >= values.length) {
        const larger = new Float64Array(Math.max(at + 1, values.length * 2));
        larger.set(values);
        values = larger;
      }
      values[at]!++;
    },
    get values() {
      return values;
    },
  };
}
