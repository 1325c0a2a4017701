/** Reads the losses and clock steps of a recording. */

import type Database from 'better-sqlite3';
import { U64_MAX } from '../../../daemon/base/bigints.ts';
import { corrupt } from '../format/errors.ts';
import { type ClockStep, type Loss, parseReason, WORD_MAX } from '../format/losses.ts';
import { toStored } from '../format/schema.ts';

const LOSSES = `
SELECT from_ns, to_ns, cause, event_type, count
FROM loss
WHERE from_ns < :toNs AND to_ns >= :fromNs
ORDER BY loss_id`;

const CLOCK_STEPS = `
SELECT boot_ns, offset_ns, kind, suspended_ns, clock_id
FROM clock
WHERE clock_id > ?
ORDER BY clock_id`;

export interface LossReader {
  /** Losses that overlap [fromNs, toNs). */
  losses(fromNs?: bigint, toNs?: bigint): Loss[];
  clockSteps(): ClockStep[];
  clockStepsAfter(clockId: number): NotedClockStep[];
}

export interface NotedClockStep extends ClockStep {
  clockId: number;
}

function areCounts(values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === 'bigint' && value >= 0n);
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= WORD_MAX;
}

type LossRow = [bigint, bigint, string, Loss['eventType'], bigint];

export function openLossReader(database: Database.Database): LossReader {
  const losses = database.prepare<[object], LossRow>(LOSSES).raw().safeIntegers();
  const steps = database
    .prepare<[number], [bigint, bigint, ClockStep['kind'], bigint, bigint]>(CLOCK_STEPS)
    .raw()
    .safeIntegers();

  const clockStepsAfter = (after: number): NotedClockStep[] =>
    steps.all(after).map(([bootNs, offsetNs, kind, suspendedNs, clockId]) => {
      if (!areCounts([bootNs, suspendedNs]) || typeof offsetNs !== 'bigint' || !isText(kind))
        throw corrupt('its list of clock steps is malformed');
      return { bootNs, offsetNs, kind, suspendedNs, clockId: Number(clockId) };
    });

  return {
    losses: (fromNs = 0n, toNs = U64_MAX) =>
      losses.all({ fromNs: toStored(fromNs), toNs: toStored(toNs) }).map((row) => {
        const [from, to, cause, eventType, count] = row;
        if (!areCounts([from, to, count]) || !isText(cause) || (eventType !== null && !isText(eventType)))
          throw corrupt('its list of losses is malformed');
        return { fromNs: from, toNs: to, ...parseReason(cause), eventType, count: Number(count) };
      }),
    clockSteps: () => clockStepsAfter(0).map(({ clockId: _, ...step }) => step),
    clockStepsAfter,
  };
}
