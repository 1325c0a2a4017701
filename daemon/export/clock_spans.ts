/**
 * Determines for each clock step the span of wall-clock time in which its offset applied. Spans overlap if the wall
 * clock was set back.
 */
import type { ClockStep } from '../../agent/recording/format/losses.ts';

export interface ClockSpan {
  readonly step: ClockStep;
  /** The span `[fromNs, toNs)`; `toNs` is undefined if the end is unknown. */
  readonly fromNs: bigint;
  readonly toNs: bigint | undefined;
}

/** Returns the span of each step. `steps` must contain all steps of a recording, in recorded order. */
export function buildClockSpans(steps: readonly ClockStep[]): ClockSpan[] {
  return steps.map((step, i) => ({
    step,
    fromNs: toWallNs(step, step.bootNs),
    toNs: computeEndNs(step, steps[i + 1]),
  }));
}

function computeEndNs(step: ClockStep, next: ClockStep | undefined): bigint | undefined {
  if (!next) return undefined;
  const endNs = toWallNs(step, next.bootNs);
  if (next.kind !== 'start') return endNs;
  // A step of kind `start` comes from another agent process, perhaps after a reboot, so boot-clock times of the two
  // steps cannot be compared.
  const nextNs = toWallNs(next, next.bootNs);
  const laterNs = endNs > nextNs ? endNs : nextNs;
  return laterNs > toWallNs(step, step.bootNs) ? laterNs : undefined;
}

function toWallNs({ offsetNs }: ClockStep, bootNs: bigint): bigint {
  return bootNs + offsetNs;
}
