/**
 * Measures how faithful a run was: how much of the plan was delivered, whether the right calls got it, and how exact
 * the delays were.
 */
import type { RunnerStatus } from '../control_lines.ts';
import { EVENT_FLAGS, STREAM_FLAGS } from '../format/plan_file.ts';
import { CALL_FLAGS, MATCH_KINDS, NONE } from '../format/report_file.ts';
import type { DelayPlan, PlannedStream } from '../plan/compile.ts';
import { buildFileKey } from '../plan/file_order.ts';
import { type Certainty, computeCertainty } from './certainty.ts';
import { computeErrorFigures, type ErrorFigures } from './error_figures.ts';
import { type FeltCall, selectFeltCalls } from './felt_calls.ts';
import {
  countMatchKinds,
  createMatchCounts,
  isHeld,
  isMatched,
  MATCH_KIND_OF,
  type MatchKindCounts,
} from './match_kinds.ts';
import { buildRolePattern, markGivenBack, type NameFigures, nameFigures, removeEvents } from './names.ts';
import { computeDeliveries, type Deliveries, type EventOutcome, getOutcome, OUTCOME_NUMBERS } from './outcomes.ts';
import { findEventStream, sumPlannedByStream } from './planned_streams.ts';
import type { CallReport } from './read_report.ts';

/** Number of the slowest events that are listed; these waits make up the incident for a user. */
export const SLOWEST_MAX = 20;

/** Assumed duration of a call without a delay, if the helper did not measure this duration at the start of the run. */
const FLOOR_NS_DEFAULT = 20_000;

export interface SlowEvent {
  event: number;
  offset_ns: number;
  target_ns: number;
  op: string;
  path: string;
  comm: string;
  service: string;
  fate: EventOutcome;
  /** Time from the command's start to the call that got the event; null if no call got it. */
  run_offset_ns: number | null;
  held_ns: number | null;
}

export interface Figures {
  planned_events: number;
  /**
   * Number of events with a target of at least the threshold. `planned_ns`, `delivered_ns` and the shares leave out all
   * other events.
   */
  considered_events: number;
  planned_ns: number;
  delivered_ns: number;
  /**
   * The parts of the delivered time that the wrong calls may have got, by cause. `by_thread_ns`: several threads call
   * on one file at the same time. `by_order_ns`: the sizes of calls do not show which calls are missing or new.
   * `by_name_ns`: file names were generated. `by_files_ns`: a thread called on several files in another order.
   */
  uncertain: { by_thread_ns: number; by_order_ns: number; by_name_ns: number; by_files_ns: number };
  /** The share of the planned time, or of the considered events, that the right calls got; null if there are none. */
  matched_by_duration: number | null;
  matched_by_count: number | null;
  calls: number;
  how: MatchKindCounts;
  fates: Record<EventOutcome, number>;
  injected_ns: number;
  /**
   * The sum of the targets of calls without an event: their targets were guessed from neighbouring calls or from the
   * stream's distribution.
   */
  guessed_ns: number;
  /**
   * Calls whose events ask for a short write. `short` counts the calls that were short. `whole` counts the calls that
   * wrote everything, because the file is not regular, the write has one byte, or a short write is not permitted.
   */
  short_writes: { short: number; whole: number };
  errors: ErrorFigures;
  /** The distribution of the time by which held calls took longer than planned. */
  late: { p50_ns: number | null; p99_ns: number | null; max_ns: number | null; calls: number };
  /** `late` plus the time for which the held calls may have queued before the helper received them. */
  late_at_most: { p50_ns: number | null; p99_ns: number | null; max_ns: number | null };
  /** Kolmogorov-Smirnov distance between the distributions of planned and actual waits above the floor. */
  ks_distance: number | null;
  floor_ns: number;
  first_divergence_ns: number | null;
  names: NameFigures;
  slowest: SlowEvent[];
  slowest_delivered: number;
  /** The calls on which the command waited longest, the longest first. */
  felt: FeltCall[];
  streams: StreamFigures[];
  /** Planned and delivered time of each recorded service; the service with the most planned time comes first. */
  services: ServiceFigures[];
}

export interface ServiceFigures {
  service: string;
  planned_ns: number;
  delivered_ns: number;
}

const GUESSES: ReadonlySet<number> = new Set([MATCH_KINDS.extra, MATCH_KINDS.distribution]);

export function computeFigures(
  plan: DelayPlan,
  reported: CallReport,
  said: RunnerStatus,
  thresholdNs: number,
): Figures {
  const returned = markGivenBack(reported, said);
  const calls = removeEvents(reported, returned);
  const floorNs = said.calibrated?.floor_ns ?? FLOOR_NS_DEFAULT;
  const biasNs = said.calibrated?.bias_ns ?? 0;
  const certainty = computeCertainty(plan, calls, said, returned);
  const deliveries = computeDeliveries(plan, calls, certainty);
  const slowest = selectSlowest(plan, calls, deliveries, thresholdNs);
  return {
    ...sumPlanned(plan, deliveries, thresholdNs),
    uncertain: sumUncertain(plan, deliveries, certainty, thresholdNs),
    calls: calls.count,
    how: countMatchKinds(calls),
    injected_ns: sum(calls, (at) => (isHeld(calls, at) ? calls.heldNs[at]! : 0)),
    guessed_ns: sum(reported, (at) => (GUESSES.has(reported.how[at]!) ? reported.targetNs[at]! : 0)),
    short_writes: countShortWrites(plan, calls),
    errors: computeErrorFigures(plan, reported),
    ...computeLateness(calls, floorNs, biasNs),
    ks_distance: computeKs(Math.max(floorNs, thresholdNs), plan, calls, biasNs),
    floor_ns: floorNs,
    first_divergence_ns: findFirstDivergence(calls),
    names: nameFigures(returned, said),
    slowest,
    slowest_delivered: slowest.filter(({ fate }) => fate === 'delivered').length,
    felt: selectFeltCalls(calls, said),
    streams: computeStreamFigures(plan, calls, said),
    services: sumServices(plan, deliveries, thresholdNs),
  };
}

function sumPlanned({ events: { target_ns }, eventCount }: DelayPlan, { fate }: Deliveries, thresholdNs: number) {
  const counts = [0, 0, 0];
  let [considered, plannedNs, deliveredNs] = [0, 0, 0];
  for (let event = 0; event < eventCount; event++) {
    if (target_ns[event]! < thresholdNs) continue;
    considered++;
    plannedNs += target_ns[event]!;
    if (fate[event] === OUTCOME_NUMBERS.delivered) deliveredNs += target_ns[event]!;
    counts[fate[event]!]!++;
  }
  const delivered = counts[OUTCOME_NUMBERS.delivered]!;
  return {
    planned_events: eventCount,
    considered_events: considered,
    planned_ns: plannedNs,
    delivered_ns: deliveredNs,
    matched_by_duration: plannedNs > 0 ? deliveredNs / plannedNs : null,
    matched_by_count: considered > 0 ? delivered / considered : null,
    fates: { delivered, displaced: counts[OUTCOME_NUMBERS.displaced]!, missing: counts[OUTCOME_NUMBERS.missing]! },
  };
}

function sumServices({ slots, streams, events }: DelayPlan, { fate }: Deliveries, thresholdNs: number) {
  const sums = new Map<string, ServiceFigures>();
  for (const [slot, stream] of slots.stream.entries()) {
    const { service } = streams[stream]!;
    const sum = sums.get(service) ?? { service, planned_ns: 0, delivered_ns: 0 };
    sums.set(service, sum);
    const first = slots.firstEvent[slot]!;
    for (let event = first; event < first + slots.eventCount[slot]!; event++) {
      const ns = events.target_ns[event]!;
      if (ns < thresholdNs) continue;
      sum.planned_ns += ns;
      if (fate[event] === OUTCOME_NUMBERS.delivered) sum.delivered_ns += ns;
    }
  }
  return [...sums.values()].sort((one, other) => other.planned_ns - one.planned_ns);
}

function sumUncertain(
  plan: DelayPlan,
  deliveries: Deliveries,
  { byOrder, byName, moved }: Certainty,
  thresholdNs: number,
) {
  const { target_ns } = plan.events;
  let [by_order_ns, by_name_ns, by_files_ns] = [0, 0, 0];
  for (let event = 0; event < plan.eventCount; event++) {
    if (target_ns[event]! < thresholdNs || deliveries.fate[event] !== OUTCOME_NUMBERS.delivered) continue;
    by_order_ns += target_ns[event]! * (1 - byOrder[event]!);
    by_name_ns += target_ns[event]! * (1 - byName[event]!);
    if (moved.has(event)) by_files_ns += target_ns[event]!;
  }
  const by_thread_ns = sumThreadUncertaintyNs(plan, deliveries, thresholdNs);
  return { by_thread_ns, by_order_ns: Math.round(by_order_ns), by_name_ns: Math.round(by_name_ns), by_files_ns };
}

function countShortWrites({ events: { flags, error } }: DelayPlan, calls: CallReport): Figures['short_writes'] {
  const counts = { short: 0, whole: 0 };
  for (let at = 0; at < calls.count; at++) {
    const event = calls.event[at]!;
    if (event === NONE || !(flags[event]! & EVENT_FLAGS.short_write) || error[event] !== 0) continue;
    counts[calls.flags[at]! & CALL_FLAGS.short_write ? 'short' : 'whole']++;
  }
  return counts;
}

/** Returns the indexes of the held calls with a target of at least `leastNs`. */
function selectHeldCalls(calls: CallReport, leastNs: number): Float64Array {
  return filterCalls(calls, (at) => isHeld(calls, at) && calls.targetNs[at]! >= leastNs);
}

/**
 * Computes the duration of a held call as the build sees it. `biasNs` is the part of that duration in which the helper
 * does not hold the call: until it receives the call, and from its release on. The helper measures `biasNs` once, before
 * the build starts, and releases calls that much earlier.
 */
function computeFeltNs(calls: CallReport, at: number, biasNs: number): number {
  return calls.heldNs[at]! + biasNs;
}

function computeLateness(calls: CallReport, floorNs: number, biasNs: number): Pick<Figures, 'late' | 'late_at_most'> {
  const held = selectHeldCalls(calls, floorNs);
  const computeLateNs = (at: number) => computeFeltNs(calls, at, biasNs) - calls.targetNs[at]!;
  return {
    late: { ...spread(held.map(computeLateNs)), calls: held.length },
    late_at_most: spread(held.map((at) => computeLateNs(at) + calls.queuedNs[at]!)),
  };
}

function spread(values: Float64Array): Figures['late_at_most'] {
  values.sort();
  const [p50_ns, p99_ns, max_ns] = [0.5, 0.99, 1].map((share) => quantile(values, share)) as [number, number, number];
  return { p50_ns, p99_ns, max_ns };
}

function computeKs(leastNs: number, { events }: DelayPlan, calls: CallReport, biasNs: number): number | null {
  const targets = events.target_ns.filter((ns) => ns >= leastNs).sort();
  const felt = selectHeldCalls(calls, leastNs).map((at) => computeFeltNs(calls, at, biasNs));
  return computeKsDistance(targets, felt.sort());
}

function selectSlowest(plan: DelayPlan, calls: CallReport, deliveries: Deliveries, thresholdNs: number): SlowEvent[] {
  const { target_ns, offset_ns } = plan.events;
  const order: number[] = [];
  for (let event = 0; event < plan.eventCount; event++) {
    if (target_ns[event]! === 0 || target_ns[event]! < thresholdNs) continue;
    if (order.length === SLOWEST_MAX && target_ns[event]! <= target_ns[order.at(-1)!]!) continue;
    const place = order.findLastIndex((other) => target_ns[other]! >= target_ns[event]!) + 1;
    order.splice(place, 0, event);
    if (order.length > SLOWEST_MAX) order.pop();
  }
  return order.map((event) => {
    const fate = getOutcome(deliveries.fate[event]!);
    const call = fate === 'missing' ? undefined : deliveries.call[event]!;
    const { op, path, comm, service } = plan.streams[findEventStream(plan, event)]!;
    return {
      event,
      offset_ns: offset_ns[event]!,
      target_ns: target_ns[event]!,
      op,
      path,
      comm,
      service,
      fate,
      run_offset_ns: call === undefined ? null : calls.receivedNs[call]!,
      held_ns: call === undefined ? null : calls.heldNs[call]!,
    };
  });
}

/**
 * Returns the time of the first call on a path of the incident that has no event; null if there is none. Other paths do
 * not count, because the command may write logs that were not recorded.
 */
function findFirstDivergence(calls: CallReport): number | null {
  for (let at = 0; at < calls.count; at++) {
    const how = calls.how[at];
    if (how === MATCH_KINDS.extra || how === MATCH_KINDS.distribution) return calls.receivedNs[at]!;
  }
  return null;
}

function sum(calls: CallReport, value: (at: number) => number): number {
  let total = 0;
  for (let at = 0; at < calls.count; at++) total += value(at);
  return total;
}

function filterCalls(calls: CallReport, isWanted: (at: number) => boolean): Float64Array {
  return calls.event.map((_, at) => at).filter((at) => isWanted(at));
}

/**
 * Returns the smallest sorted value that at least `share` (0 to 1) of all values do not exceed; null without values.
 */
export function quantile(sorted: Float64Array, share: number): number | null {
  if (sorted.length === 0) return null;
  return sorted[Math.max(Math.ceil(sorted.length * share) - 1, 0)]!;
}

/**
 * Computes the Kolmogorov-Smirnov distance (0 to 1) of two sorted samples, which is the largest difference between
 * their cumulative distributions. Returns null if one of them is empty.
 */
export function computeKsDistance(one: Float64Array, other: Float64Array): number | null {
  if (one.length === 0 || other.length === 0) return null;
  let [i, j, largest] = [0, 0, 0];
  while (i < one.length && j < other.length) {
    const value = Math.min(one[i]!, other[j]!);
    while (i < one.length && one[i] === value) i++;
    while (j < other.length && other[j] === value) j++;
    largest = Math.max(largest, Math.abs(i / one.length - j / other.length));
  }
  return largest;
}

/*
 * Threads that do the same work on one file at the same time, such as a pool's threads that append to one log. From run
 * to run, the same calls come from different threads and in a different order, and nothing else distinguishes them.
 * Therefore, an event of such a thread may have been given to the wrong call.
 */

/**
 * Returns how much of the delivered time the wrong calls may have got. Each event adds the difference between its
 * target and the shortest target in its group of interchangeable events.
 */
function sumThreadUncertaintyNs(plan: DelayPlan, { fate }: Deliveries, thresholdNs: number): number {
  const { slots, events } = plan;
  let uncertain = 0;
  for (const alike of groupAlikeSlots(plan)) {
    const targets = alike.flatMap((slot) => {
      const first = slots.firstEvent[slot]!;
      return Array.from({ length: slots.eventCount[slot]! }, (_, at) => first + at);
    });
    const least = targets.reduce((ns, event) => Math.min(ns, events.target_ns[event]!), Number.POSITIVE_INFINITY);
    for (const event of targets)
      if (fate[event] === OUTCOME_NUMBERS.delivered && events.target_ns[event]! >= thresholdNs)
        uncertain += events.target_ns[event]! - least;
  }
  return uncertain;
}

/** Groups the slots of threads that have the same role and call on the same file at overlapping times. */
function groupAlikeSlots({ slots, streams }: DelayPlan): number[][] {
  const found = Map.groupBy(slots.stream.keys(), (slot) => buildRoleKey(streams[slots.stream[slot]!]!));
  found.delete('');
  return [...found.values()].filter((alike) => new Set(alike.map((slot) => slots.tid[slot]!)).size > 1);
}

function buildRoleKey(stream: PlannedStream): string {
  if (stream.flags & STREAM_FLAGS.in_order) return '';
  return `${buildFileKey(stream)} ${buildRolePattern(stream.comm)}`;
}

/* Figures of the calls on each path. The helper merges paths that differ in numbers: `/data/wal/seg-#.log`. */

interface StreamFigures {
  op_class: string;
  path: string;
  role: string;
  recorded_events: number;
  /** Whether the file was only the output of recorded programs, such as a service's log. */
  is_output: boolean;
  /** Planned time; null if several recorded paths were merged into this path and no call identifies them. */
  planned_ns: number | null;
  calls: number;
  how: MatchKindCounts;
  missing_events: number;
  injected_ns: number;
  /** Total duration of the calls on the path, as far as it is known. */
  took_ns: number;
  longest_unmatched: { calls: number; from_ns: number } | null;
}

interface GatheredFigures extends StreamFigures {
  events: Set<number>;
  /** Streams of the plan whose events were given to calls on this path. */
  streams: Set<number>;
  unmatched: number;
  unmatchedFromNs: number;
}

function computeStreamFigures(plan: DelayPlan, calls: CallReport, said: RunnerStatus): StreamFigures[] {
  const gathered = new Map<number, GatheredFigures>();
  const outputs = listOutputPaths(plan);
  for (const [number, { op_class, path, role, recorded_events }] of said.streams)
    gathered.set(number, {
      op_class,
      path,
      role,
      recorded_events,
      is_output: outputs.has(path),
      planned_ns: null,
      calls: 0,
      how: createMatchCounts(),
      missing_events: 0,
      injected_ns: 0,
      took_ns: 0,
      longest_unmatched: null,
      events: new Set(),
      streams: new Set(),
      unmatched: 0,
      unmatchedFromNs: 0,
    });
  for (let at = 0; at < calls.count; at++) {
    const figures = gathered.get(calls.stream[at]!);
    if (figures) gather(figures, plan, calls, at);
  }
  const planned = sumPlannedByStream(plan);
  return [...gathered.values()]
    .map(({ events, streams, unmatched: _unmatched, unmatchedFromNs: _from, ...figures }) => ({
      ...figures,
      planned_ns: streams.size > 0 ? [...streams].reduce((sum, stream) => sum + planned[stream]!, 0) : null,
      missing_events: Math.max(figures.recorded_events - events.size, 0),
    }))
    .sort((one, other) => other.injected_ns - one.injected_ns || other.calls - one.calls);
}

function listOutputPaths({ streams }: DelayPlan): Set<string> {
  const outputs = new Set(streams.filter(({ isOutput }) => isOutput).map(({ path }) => path));
  for (const { path, isOutput } of streams) if (!isOutput) outputs.delete(path);
  return outputs;
}

function gather(figures: GatheredFigures, plan: DelayPlan, calls: CallReport, at: number): void {
  const how = calls.how[at]!;
  const event = calls.event[at]!;
  figures.calls++;
  figures.how[MATCH_KIND_OF.get(how)!]++;
  figures.took_ns += calls.heldNs[at]! + calls.nativeNs[at]!;
  if (isHeld(calls, at)) figures.injected_ns += calls.heldNs[at]!;
  // An unmatched call may have got its target from another path, so its event does not count here.
  if (event !== NONE && isMatched(how)) {
    figures.streams.add(findEventStream(plan, event));
    figures.events.add(event);
  }
  if (figures.unmatched === 0) figures.unmatchedFromNs = calls.receivedNs[at]!;
  figures.unmatched = isMatched(how) ? 0 : figures.unmatched + 1;
  if (figures.unmatched > (figures.longest_unmatched?.calls ?? 0))
    figures.longest_unmatched = { calls: figures.unmatched, from_ns: figures.unmatchedFromNs };
}
