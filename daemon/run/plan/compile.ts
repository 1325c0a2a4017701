/** Compiles an incident into a plan, which says how long each call of a build takes. */

import type { ColumnsOf } from '../format/layout.ts';
import { PLAN_FLAGS, type planEvent, STREAM_FLAGS } from '../format/plan_file.ts';
import { findOrderedStreams } from './file_order.ts';
import type { Incident, IncidentStream } from './incident.ts';
import { computeFaultLimits, computeLimits, type FailRule, type InjectRule, isChosen } from './rules.ts';

/** Maximum target of a call; no test waits longer than an hour on purpose. */
export const TARGET_NS_MAX = 3_600_000_000_000;

export interface PlanOptions {
  seed: bigint;
  /** Speed factor: 2 halves all durations. */
  speed: number;
  extraLatencyNs: number;
  inject: readonly InjectRule[];
  fail: readonly FailRule[];
}

export interface PlannedStream extends IncidentStream {
  firstSlot: number;
  slotCount: number;
  /** Combination of STREAM_FLAGS. */
  flags: number;
}

export interface PlanSlots {
  tid: Uint32Array;
  stream: Uint32Array;
  firstEvent: Uint32Array;
  eventCount: Uint32Array;
}

type PlanEventColumns = ColumnsOf<(typeof planEvent)['fields']>;

export interface DelayPlan {
  seed: bigint;
  flags: number;
  streams: PlannedStream[];
  slots: PlanSlots;
  /** The events, grouped by slot; each slot's events are in recorded order. */
  events: PlanEventColumns & { offset_ns: Float64Array; target_ns: Float64Array };
  eventCount: number;
}

export function compilePlan(incident: Incident, options: PlanOptions): DelayPlan {
  const { calls, lanes } = incident;
  const slotOf = computeLaneSlots(incident);
  const slotCount = lanes.count;
  const streams = Array.from({ length: incident.streamCount }, (_, number) => incident.buildStream(number));
  const slots: PlanSlots = {
    tid: new Uint32Array(slotCount),
    stream: new Uint32Array(slotCount),
    firstEvent: new Uint32Array(slotCount),
    eventCount: new Uint32Array(slotCount),
  };
  const slotsOfStream = new Uint32Array(streams.length);
  const firstSlot = new Uint32Array(streams.length);
  for (let lane = 0; lane < slotCount; lane++) {
    const slot = slotOf[lane]!;
    const stream = lanes.getFirst(lane);
    slots.tid[slot] = incident.getTid(lanes.getSecond(lane));
    slots.stream[slot] = stream;
    if (slotsOfStream[stream]!++ === 0) firstSlot[stream] = slot;
  }
  const { columns, count } = calls;
  for (let call = 0; call < count; call++) slots.eventCount[slotOf[columns.lane[call]!]!]!++;
  for (let slot = 1; slot < slotCount; slot++)
    slots.firstEvent[slot] = slots.firstEvent[slot - 1]! + slots.eventCount[slot - 1]!;
  const ordered = findOrderedStreams(incident, streams);
  return {
    seed: options.seed,
    flags: incident.usesStandardFds ? PLAN_FLAGS.standard_fds : 0,
    streams: streams.map((stream, number) => ({
      ...stream,
      firstSlot: firstSlot[number]!,
      slotCount: slotsOfStream[number]!,
      flags: ordered.has(number) ? STREAM_FLAGS.in_order : 0,
    })),
    slots,
    events: planEvents(incident, streams, slotOf, slots, options),
    eventCount: count,
  };
}

/** Returns the slot of each lane. The slots of a stream are consecutive and in the order of its lanes. */
function computeLaneSlots({ lanes, streamCount }: Incident): Uint32Array {
  const next = new Uint32Array(streamCount + 1);
  for (let lane = 0; lane < lanes.count; lane++) next[lanes.getFirst(lane) + 1]!++;
  for (let stream = 1; stream <= streamCount; stream++) next[stream]! += next[stream - 1]!;
  const slots = new Uint32Array(lanes.count);
  for (let lane = 0; lane < lanes.count; lane++) slots[lane] = next[lanes.getFirst(lane)]!++;
  return slots;
}

function planEvents(
  { calls: { columns, count } }: Incident,
  streams: readonly IncidentStream[],
  slotOf: Uint32Array,
  slots: PlanSlots,
  { speed, extraLatencyNs, inject, fail }: PlanOptions,
): DelayPlan['events'] {
  const place = slots.firstEvent.slice();
  const injected = streams.map((stream) => computeStreamLatency(inject, stream));
  const failing = streams.map((stream) => fail.flatMap((rule, at) => (isChosen(rule, stream) ? [at] : [])));
  const seen = fail.map(() => 0);
  const events = {
    offset_ns: new Float64Array(count),
    target_ns: new Float64Array(count),
    size: new Uint32Array(count),
    error: new Uint16Array(count),
    flags: new Uint16Array(count),
  };
  for (let call = 0; call < count; call++) {
    const slot = slotOf[columns.lane[call]!]!;
    const stream = slots.stream[slot]!;
    const at = place[slot]!++;
    const { factor, extraNs, limits } = injected[stream]!;
    const targetNs = (columns.durationNs[call]! / speed) * factor + extraNs + extraLatencyNs;
    events.offset_ns[at] = Math.round(columns.startNs[call]! / speed);
    events.target_ns[at] = Math.min(Math.round(targetNs), TARGET_NS_MAX);
    events.size[at] = columns.size[call]!;
    events.flags[at] = columns.flags[call]! | limits;
    for (const rule of failing[stream]!) {
      seen[rule]!++;
      const { nth, errno, matches } = fail[rule]!;
      if (nth !== undefined && nth !== seen[rule]) continue;
      // Rules for all calls skip sync(), because sync() never returns an error.
      if (nth === undefined && streams[stream]!.op === 'sync') continue;
      events.error[at] = errno;
      events.flags[at]! |= computeFaultLimits(matches);
    }
  }
  return events;
}

/** Combines all rules that apply to a stream. */
function computeStreamLatency(rules: readonly InjectRule[], stream: IncidentStream) {
  const chosen = rules.filter((rule) => isChosen(rule, stream));
  return {
    factor: chosen.reduce((product, { factor }) => product * factor, 1),
    extraNs: chosen.reduce((sum, { extraNs }) => sum + extraNs, 0),
    limits: chosen.reduce((flags, { matches }) => flags | computeLimits(matches), 0),
  };
}
