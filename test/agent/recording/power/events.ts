/** The events that the writer of a test writes: each follows from its number, so that any reader can check it. */
import type { Row } from '../fixture.ts';

export const START_NS = 1_763_683_200_000_000_000n;
export const FLUSH_ROWS = 24;
/** What passes between two flushes, by the clock of the events: parts are sealed some times in a run. */
export const FLUSH_NS = 200_000_000n;

export function startOf(number: number): bigint {
  const flush = Math.floor(number / FLUSH_ROWS);
  return START_NS + BigInt(flush) * FLUSH_NS + BigInt(number % FLUSH_ROWS) * 1000n;
}

export function rowOf(number: number): Row {
  return {
    timestamp_ns: startOf(number),
    duration_ns: BigInt(number % 7) * 10n,
    pid: number,
    'sys_write.bytes_requested': (number * 2_654_435_761) % 1_000_003,
  };
}
