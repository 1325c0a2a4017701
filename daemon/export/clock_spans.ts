/** In which stretch of wall time each step of the clock was in force: after it was set back, they overlap. */
import type { ClockStep } from './source.ts';

export interface ClockSpan {
  readonly step: ClockStep;
  /** `[fromNs, toNs)`; undefined when its end is not known. */
  readonly fromNs: bigint;
  readonly toNs: bigint | undefined;
}

/** `steps`: all of a recording, as they came. */
export function clockSpans(steps: readonly ClockStep[]): ClockSpan[] {
  return steps.map((step, i) => ({ step, fromNs: wallNs(step, step.bootNs), toNs: endOf(step, steps[i + 1]) }));
}

function endOf(step: ClockStep, next: ClockStep | undefined): bigint | undefined {
  if (!next) return undefined;
  const endNs = wallNs(step, next.bootNs);
  if (next.kind !== 'start') return endNs;
  // Another agent, perhaps after a reboot: its boot clock says nothing of this one.
  const nextNs = wallNs(next, next.bootNs);
  const laterNs = endNs > nextNs ? endNs : nextNs;
  return laterNs > wallNs(step, step.bootNs) ? laterNs : undefined;
}

function wallNs({ offsetNs }: ClockStep, bootNs: bigint): bigint {
  return bootNs + offsetNs;
}
