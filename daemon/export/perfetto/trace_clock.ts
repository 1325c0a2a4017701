/**
 * Trace time is the boot clock, which cannot be set: an event's place follows from the step of the wall clock that was
 * in force. A time that the clock showed twice counts as that of the earlier step. Boot clocks restart at a reboot, so
 * what another agent recorded later comes as much later as the wall clock says.
 */
import { type ClockSpan, clockSpans } from '../clock_spans.ts';
import type { ClockStep } from '../source.ts';

export interface TraceClock {
  /** Wall clock minus trace time at a wall time. */
  offsetAt(wallNs: bigint): bigint;
  /** The same moments on both clocks. */
  readonly readings: readonly { wallNs: bigint; traceNs: bigint }[];
}

/** `firstNs` is the start of the first event. If no step puts it after the boot, trace time is the wall clock. */
export function newTraceClock(steps: readonly ClockStep[], firstNs: bigint): TraceClock {
  const spans = clockSpans(steps);
  const offsets = offsetsOf(steps);
  const offsetAt = (wallNs: bigint) => offsets[placeOf(spans, wallNs)] ?? 0n;
  const firstOffsetNs = offsetAt(firstNs);
  if (firstOffsetNs > firstNs) return newTraceClock([], firstNs);
  const later = spans.map(({ fromNs }, i) => ({ wallNs: fromNs, traceNs: fromNs - offsets[i]! }));
  const first = { wallNs: firstNs, traceNs: firstNs - firstOffsetNs };
  return { offsetAt, readings: [first, ...later.filter(({ traceNs }) => traceNs > first.traceNs)] };
}

/** A step moves the wall clock relative to trace time; the start of an agent does not. */
function offsetsOf(steps: readonly ClockStep[]): bigint[] {
  let offsetNs = steps[0]?.offsetNs ?? 0n;
  return steps.map((step, i) => {
    if (i > 0 && step.kind !== 'start') offsetNs += step.offsetNs - steps[i - 1]!.offsetNs;
    return offsetNs;
  });
}

/** No step covers the time before the first one, or time that the clock skipped: the step before is used. */
function placeOf(spans: readonly ClockSpan[], wallNs: bigint): number {
  const covering = spans.findIndex(({ fromNs, toNs }) => fromNs <= wallNs && (toNs === undefined || wallNs < toNs));
  return covering >= 0
    ? covering
    : Math.max(
        0,
        spans.findLastIndex(({ fromNs }) => fromNs <= wallNs),
      );
}
