/**
 * Finds bursts of own events. If a transaction id is used again minutes later, both uses are recorded as one
 * transaction, and its duration describes neither use.
 */
import { sumLengthNs, uniteIntervals } from '../lanes/intervals.ts';
import type { LanesModel, TimeSpan } from '../lanes/model.ts';
import { collectIntervals } from '../lanes/request_times.ts';
import { OWN } from '../lanes/shares.ts';
import { formatShortDuration, groupDigits } from '../wording/exact_times.ts';

/**
 * Every pause between bursts is longer than this: shorter pauses are common while a transaction waits for another host.
 */
const APART_NS_MIN = 1_000_000_000;

export interface Burst extends TimeSpan {
  /** Number of own events that began in the burst. */
  count: number;
}

/** Divides the own events of a picture into bursts. */
export function findBursts(model: LanesModel): Burst[] {
  return divideIntoBursts(collectIntervals(model, listOwnRows(model)));
}

/**
 * Divides own events at each pause that is longer than `APART_NS_MIN` and longer than all own events took together.
 * `intervals` are starts and ends of the events, alternating, in order of start. Bursts are in order of time.
 */
export function divideIntoBursts(intervals: ArrayLike<number>): Burst[] {
  const apartNs = Math.max(APART_NS_MIN, sumLengthNs(uniteIntervals(intervals)));
  const bursts: Burst[] = [];
  for (let i = 0; i < intervals.length; i += 2) {
    const [fromNs, toNs] = [intervals[i]!, intervals[i + 1]!];
    const last = bursts.at(-1);
    if (!last || fromNs - last.toNs > apartNs) bursts.push({ fromNs, toNs, count: 1 });
    else {
      last.toNs = Math.max(last.toNs, toNs);
      last.count++;
    }
  }
  return bursts;
}

/**
 * Returns whether a transaction may have several bursts, without reading its events. No pause is longer than the
 * transaction's duration minus the duration of its slowest event.
 */
export function mayHaveBursts({ durationNs, slowestNs }: { durationNs: bigint; slowestNs: bigint }): boolean {
  return durationNs - slowestNs > BigInt(Math.max(APART_NS_MIN, Number(slowestNs)));
}

/** Lists the rows of own events in order of start. */
function listOwnRows({ shares, starts }: LanesModel): number[] {
  const rows: number[] = [];
  let isSorted = true;
  for (let row = 0; row < shares.length; row++) {
    if (shares[row] !== OWN) continue;
    if (isSorted && rows.length > 0 && starts[row]! < starts[rows.at(-1)!]!) isSorted = false;
    rows.push(row);
  }
  // Rows are out of order only if clock offsets were added.
  return isSorted ? rows : rows.sort((a, b) => starts[a]! - starts[b]!);
}

/** Formats `2 bursts of calls, 13.0 s apart`. */
export function formatBursts(bursts: readonly TimeSpan[]): string {
  return formatBurstCount(bursts.length, findLongestPauseNs(bursts));
}

/** Formats the number of bursts and the longest pause between two of them. */
export function formatBurstCount(count: number, apartNs: number | bigint): string {
  return `${groupDigits(count)} bursts of calls, ${count === 2 ? '' : 'up to '}${formatShortDuration(apartNs)} apart`;
}

/** Returns the longest time between two bursts; 0 for a single burst. */
function findLongestPauseNs(bursts: readonly TimeSpan[]): number {
  return bursts.reduce((most, { fromNs }, i) => (i === 0 ? 0 : Math.max(most, fromNs - bursts[i - 1]!.toNs)), 0);
}
