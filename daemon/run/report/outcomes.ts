/**
 * Determines the fate of each event of the plan.
 *
 *   delivered  the right call took as long as the event
 *   displaced  another call did: a call that probably belongs to another event, or a call of the same class without an
 *              event that waited at least half as long
 *   missing    no call did
 */

import { OPS } from '../format/plan_file.ts';
import { NONE } from '../format/report_file.ts';
import type { DelayPlan } from '../plan/compile.ts';
import { type Certainty, computeEventCertainty } from './certainty.ts';
import { isMatched } from './match_kinds.ts';
import { findEventStream } from './planned_streams.ts';
import type { CallReport } from './read_report.ts';

export const OUTCOME_NUMBERS = { missing: 0, displaced: 1, delivered: 2 } as const;
export type EventOutcome = keyof typeof OUTCOME_NUMBERS;
const FATES = Object.keys(OUTCOME_NUMBERS) as EventOutcome[];

const LIKE_SHARE = 0.5;
/** Minimum certainty from which an event counts as delivered to the right call. */
const LIKELY_MIN = 0.4;

/** For each event, its fate as an OUTCOME_NUMBERS value, and the index of the call that got it. */
export interface Deliveries {
  fate: Uint8Array;
  call: Uint32Array;
}

export function getOutcome(number: number): EventOutcome {
  return FATES[number]!;
}

export function computeDeliveries(plan: DelayPlan, calls: CallReport, certainty: Certainty): Deliveries {
  const deliveries = { fate: new Uint8Array(plan.eventCount), call: new Uint32Array(plan.eventCount) };
  for (let at = 0; at < calls.count; at++) {
    const event = calls.event[at]!;
    if (event === NONE || !isMatched(calls.how[at]!)) continue;
    const isLikely = computeEventCertainty(certainty, event) >= LIKELY_MIN;
    deliveries.fate[event] = isLikely ? OUTCOME_NUMBERS.delivered : OUTCOME_NUMBERS.displaced;
    deliveries.call[event] = at;
  }
  for (const isSync of [false, true]) displace(plan, calls, deliveries, isSync);
  return deliveries;
}

/**
 * Changes missing events to displaced if another call waited long enough. In order of length, each missing event gets
 * the longest remaining wait of an unmatched call.
 */
function displace(plan: DelayPlan, calls: CallReport, { fate, call }: Deliveries, isSync: boolean): void {
  const isOfClass = (op: number) => op >= OPS.fsync === isSync;
  const { target_ns } = plan.events;
  const ops = plan.streams.map(({ op }) => OPS[op]);
  const free = selectPlaces(
    calls.count,
    (at) => !isMatched(calls.how[at]!) && calls.targetNs[at]! > 0 && isOfClass(calls.op[at]!),
  );
  if (free.length === 0) return;
  const missing = selectPlaces(
    plan.eventCount,
    (event) => fate[event] === OUTCOME_NUMBERS.missing && isOfClass(ops[findEventStream(plan, event)]!),
  );
  free.sort((one, other) => calls.targetNs[other]! - calls.targetNs[one]!);
  missing.sort((one, other) => target_ns[other]! - target_ns[one]!);
  let next = 0;
  for (const event of missing) {
    const at = free[next];
    if (at === undefined) return;
    if (calls.targetNs[at]! < target_ns[event]! * LIKE_SHARE) continue;
    fate[event] = OUTCOME_NUMBERS.displaced;
    call[event] = at;
    next++;
  }
}

function selectPlaces(count: number, isWanted: (at: number) => boolean): Uint32Array {
  const places = new Uint32Array(count);
  let found = 0;
  for (let at = 0; at < count; at++) if (isWanted(at)) places[found++] = at;
  return places.subarray(0, found);
}
