/** Sums for the two sides of a comparison. */
import { type ExactSum, exactSum } from '../exact_sum.ts';
import { PARTS, type Part, type Side } from './comparison.ts';

export interface SideSums {
  count: number;
  readonly duration: ExactSum;
  readonly parts: Record<Part, ExactSum>;
}

export function sideSums(): SideSums {
  const parts = Object.fromEntries(PARTS.map((part) => [part, exactSum()])) as Record<Part, ExactSum>;
  return { count: 0, duration: exactSum(), parts };
}

export function sideOf({ count, duration, parts }: SideSums): Side {
  const totals = PARTS.map((part) => [part, parts[part].total()] as const);
  return { count, durationNs: duration.total(), parts: Object.fromEntries(totals) as Record<Part, bigint> };
}

/** An array that grows. */
export interface Counts {
  add(at: number): void;
  readonly values: Float64Array;
}

export function growingCounts(): Counts {
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

/** The wait of each block request before its device got it, by its place among the requests; 0 where it is unknown. */
export function queueTimes(queues: BigUint64Array): (place: number) => number {
  const words = new Uint32Array(queues.buffer, queues.byteOffset, queues.length * 2);
  return (place) => {
    const high = words[place * 2 + 1]!;
    return high === 0xffff_ffff ? 0 : high * 2 ** 32 + words[place * 2]!;
  };
}
