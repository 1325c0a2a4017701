/** Keeps track of the load's writes that have been seen in a recording, which drops its oldest events all the time. */

import type { Loss } from '../../agent/recording/format/losses.ts';
import { openReader, type RecordingReader } from '../../agent/recording/read/reader.ts';

/** Descriptor of the first file that the load opens. */
const FD = 3;
const GROWTH = 1 << 22;

export interface SeenNumbers {
  /** Reads what began at `fromNs` or later. Retention must not have removed events that no look has seen. */
  look(fromNs: bigint): void;
  has(number: number): boolean;
  /** Reads the losses alone. */
  lookForLosses(): void;
  /** Every loss that any look has found. */
  losses(): Loss[];
  /** Number of writes that one look found twice, summed over all looks. */
  readonly duplicates: number;
}

export function newSeenNumbers(recording: string, pid: number): SeenNumbers {
  let seen = new Uint8Array(GROWTH);
  const losses = new Map<string, Loss>();
  let duplicates = 0;

  function noteLosses(reader: RecordingReader): void {
    for (const loss of reader.losses()) {
      const { cause, eventType, count, fromNs, toNs } = loss;
      losses.set(`${cause} ${eventType} ${count} ${fromNs} ${toNs}`, loss);
    }
  }

  function mark(number: number): void {
    if (number >> 3 >= seen.length) {
      const longer = new Uint8Array((number >> 3) + GROWTH);
      longer.set(seen);
      seen = longer;
    }
    seen[number >> 3]! |= 1 << (number & 7);
  }

  return {
    look(fromNs) {
      const reader = openReader(recording);
      const numbers: number[] = [];
      try {
        const filter = { eventTypes: ['sys_write' as const], pid, fromNs };
        for (const { rowCount, columns } of reader.scan({ filter, columns: ['sys_write.fd', 'result'] })) {
          const [fds, results] = [columns.get('sys_write.fd')!, columns.get('result')!];
          for (let row = 0; row < rowCount; row++) if (fds[row] === FD) numbers.push(Number(results[row]));
        }
        noteLosses(reader);
      } finally {
        reader.close();
      }
      duplicates += numbers.length - new Set(numbers).size;
      for (const number of numbers) mark(number);
    },
    lookForLosses() {
      const reader = openReader(recording);
      try {
        noteLosses(reader);
      } finally {
        reader.close();
      }
    },
    has: (number) => ((seen[number >> 3] ?? 0) & (1 << (number & 7))) !== 0,
    losses: () => [...losses.values()],
    get duplicates() {
      return duplicates;
    },
  };
}
