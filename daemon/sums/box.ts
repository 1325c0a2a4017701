/** A box in a heatmap of durations over time, and a test whether the box contains a row. */

import { toWords } from '../../agent/recording/words64.ts';
import { U64_MAX } from '../base/bigints.ts';

export interface Box {
  /** Half-open range of the start: [fromNs, toNs). */
  fromNs?: bigint;
  toNs?: bigint;
  /** Inclusive bounds of the duration. */
  minDurationNs?: bigint;
  maxDurationNs?: bigint;
  failed?: boolean;
}

/** Rows with a start and a duration. Arrays may be longer than `length`. */
export interface TimedRows {
  length: number;
  startsNs: BigUint64Array | BigInt64Array;
  durationsNs: BigUint64Array | BigInt64Array;
  hasFailed: (row: number) => boolean;
}

/** Converts transactions to timed rows: a transaction has failed if one of its events has failed. */
export function toTimedRows<Rows extends { failed: Uint8Array }>({
  failed,
  ...rows
}: Rows): Omit<Rows, 'failed'> & Pick<TimedRows, 'hasFailed'> {
  return { ...rows, hasFailed: (row) => failed[row] === 1 };
}

/** Returns a test for rows; each call of the test reads the present contents of the arrays. */
export function createBoxTest(
  { fromNs = 0n, toNs = U64_MAX + 1n, minDurationNs = 0n, maxDurationNs = U64_MAX, failed }: Box,
  { startsNs, durationsNs, hasFailed }: Omit<TimedRows, 'length'>,
): (row: number) => boolean {
  const isInTime = createRangeTest(toWords(startsNs), fromNs, toNs - 1n);
  const isInDuration = createRangeTest(toWords(durationsNs), minDurationNs, maxDurationNs);
  return (row) => isInTime(row) && isInDuration(row) && (failed === undefined || hasFailed(row) === failed);
}

/** Returns whether the box is limited only by time. */
export function isOfTimeAlone({ fromNs, toNs, minDurationNs, maxDurationNs, failed }: Box): boolean {
  const isOfTime = fromNs !== undefined || toNs !== undefined;
  return isOfTime && minDurationNs === undefined && maxDurationNs === undefined && failed === undefined;
}

/** Returns a test for values of 64 bits, with inclusive bounds. */
function createRangeTest(words: Uint32Array, min: bigint, max: bigint): (row: number) => boolean {
  const from = min < 0n ? 0n : min;
  const to = max > U64_MAX ? U64_MAX : max;
  if (from > to) return () => false;
  if (from === 0n && to === U64_MAX) return () => true;
  const [fromHigh, fromLow] = [Number(from >> 32n), Number(from & 0xffff_ffffn)];
  const [toHigh, toLow] = [Number(to >> 32n), Number(to & 0xffff_ffffn)];
  return (row) => {
    const low = words[row * 2]!;
    const high = words[row * 2 + 1]!;
    return (
      (high > fromHigh || (high === fromHigh && low >= fromLow)) && (high < toHigh || (high === toHigh && low <= toLow))
    );
  };
}
