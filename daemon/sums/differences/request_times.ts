/** When requests of each kind were under way, for many requests: how many there were at a moment. */

import { wordsOf } from '../../../agent/recording/words64.ts';
import { firstAbove } from '../../base/binary_search.ts';
import { bigColumn } from '../../store/blocks/column.ts';
import type { ScannedBlock } from '../../store/blocks/scanned_block.ts';

const WORD = 2 ** 32;

/**
 * Starts and ends, each in an order of its own: as many requests are under way as have begun and not ended. Times count
 * from a base, and are exact within 104 days of it.
 */
interface Times {
  count: number;
  starts: Float64Array;
  ends: Float64Array;
}

export interface RequestTimes {
  /** Returns a function that adds the request of a row to a kind. */
  open(scanned: ScannedBlock): (row: number, kind: number) => void;
  /** Must come after the last request and before the first question. Yields to let other work run. */
  sort(): Generator<void, void>;
  /** Returns how many requests of a kind were under way at a moment: begun by then, and ended later. */
  countAt(kind: number, at: number): number;
}

export function requestTimes(baseNs: bigint): RequestTimes {
  const [baseHigh, baseLow] = [Number(baseNs >> 32n), Number(baseNs & 0xffff_ffffn)];
  const kinds: Times[] = [];

  return {
    open({ block }) {
      const [at, durations] = [wordsOf(bigColumn(block, 'timestamp_ns')), wordsOf(bigColumn(block, 'duration_ns'))];
      return (row, kind) => {
        kinds[kind] ??= { count: 0, starts: new Float64Array(8), ends: new Float64Array(8) };
        const times = kinds[kind];
        if (times.count === times.starts.length) grow(times);
        const start = (at[row * 2 + 1]! - baseHigh) * WORD + (at[row * 2]! - baseLow);
        times.starts[times.count] = start;
        times.ends[times.count++] = start + durations[row * 2 + 1]! * WORD + durations[row * 2]!;
      };
    },
    *sort() {
      for (const { starts, ends, count } of kinds) {
        starts.subarray(0, count).sort();
        ends.subarray(0, count).sort();
        yield;
      }
    },
    countAt(kind, at) {
      const { starts, ends, count } = kinds[kind]!;
      return firstAbove(starts, at, 0, count) - firstAbove(ends, at, 0, count);
    },
  };
}

function grow(times: Times): void {
  for (const side of ['starts', 'ends'] as const) {
    const larger = new Float64Array(times.count * 2);
    larger.set(times[side]);
    times[side] = larger;
  }
}
