/**
 * Collects sequences of recorded calls and of the run's calls, both in the order in which they were made. A sequence
 * contains the calls on a file if these calls do not overlap, and otherwise the calls of one thread on that file.
 *
 *   recorded  write 1   fsync   write 2   fsync   write 3   fsync
 *   made      write 1   fsync             fsync   write 3   fsync   fsync
 */
import type { RunnerStatus } from '../control_lines.ts';
import { OPS, SIZE_UNKNOWN, STREAM_FLAGS } from '../format/plan_file.ts';
import { CALL_FLAGS, NONE } from '../format/report_file.ts';
import type { DelayPlan, PlannedStream } from '../plan/compile.ts';
import { buildFileKey } from '../plan/file_order.ts';
import { NO_SIZE, type Sequences } from './likely_alignment.ts';
import { isMatched } from './match_kinds.ts';
import { buildRolePattern } from './names.ts';
import { findEventStream } from './planned_streams.ts';
import type { CallReport } from './read_report.ts';

export interface CallSequence {
  /** Name of the file in the incident. */
  file: string;
  /** Indexes of the plan's events and of the report's calls. */
  events: number[];
  calls: number[];
  /** Whether some of the calls are on a file with another name that was assumed to be this file. */
  standsIn: boolean;
  /**
   * Roles of the threads that call on the file in the incident. `hasOtherRoles` is true if threads of other roles call
   * on the file in the run.
   */
  roles: Set<string>;
  hasOtherRoles: boolean;
}

/** Collects the sequences. `isLeftOut` marks calls that are left out because they were assigned to the wrong file. */
export function collectSequences(plan: DelayPlan, calls: CallReport, said: RunnerStatus, isLeftOut: Uint8Array) {
  const streams = plan.streams.map(createUnitLookup(plan));
  const found = new Map<string, CallSequence>();
  const eventKeys = collectEventKeys(plan, streams, found);
  const unitOfStream = findRunnerUnits(calls, said, streams, plan);
  const keyOfThread = findThreadKeys(calls, eventKeys, unitOfStream);
  for (const at of sortByReception(calls)) {
    if (isLeftOut[at]) continue;
    const event = getMatchedEvent(calls, at);
    const key = event === NONE ? findStreamKey(at) : eventKeys[event]!;
    const sequence = key === undefined ? undefined : found.get(key);
    if (!sequence) continue;
    sequence.calls.push(at);
    sequence.standsIn ||= (calls.flags[at]! & CALL_FLAGS.stands_in) !== 0;
    sequence.hasOtherRoles ||= (calls.flags[at]! & CALL_FLAGS.other_role) !== 0;
  }
  return [...found.values()].filter((sequence) => sequence.calls.length > 0);

  function findStreamKey(at: number): string | undefined {
    const unit = unitOfStream.get(calls.stream[at]!);
    return !unit || unit.isInOrder ? unit?.name : keyOfThread.get(`${calls.tid[at]} ${unit.name}`);
  }
}

/** Returns the event that a call was matched with, or NONE. */
function getMatchedEvent(calls: CallReport, at: number): number {
  return isMatched(calls.how[at]!) ? calls.event[at]! : NONE;
}

/**
 * Streams whose calls are compared together: all streams of a file, or only its writes or its syncs. If the unit is not
 * in order, each thread has its own sequence.
 */
interface Unit {
  name: string;
  file: string;
  isInOrder: boolean;
}

const isSync = (op: keyof typeof OPS) => OPS[op] >= OPS.fsync;
/** Builds a key like that of `buildFileKey`, but without the class (write or sync). */
const buildClasslessKey = (stream: PlannedStream) => buildFileKey(stream).replace(/^(?:true|false) /, '');

function createUnitLookup({ streams }: DelayPlan): (stream: PlannedStream) => Unit {
  const orders = new Map<string, Set<boolean>>();
  for (const stream of streams) {
    const file = buildClasslessKey(stream);
    orders.set(file, (orders.get(file) ?? new Set()).add((stream.flags & STREAM_FLAGS.in_order) !== 0));
  }
  return (stream) => {
    const file = buildClasslessKey(stream);
    // If only the writes or only the syncs of a file are in order, writes and syncs form two separate sequences.
    const name = orders.get(file)!.size > 1 ? buildFileKey(stream) : file;
    return { name, file, isInOrder: (stream.flags & STREAM_FLAGS.in_order) !== 0 };
  };
}

const createSequence = (file: string): CallSequence => ({
  file,
  events: [],
  calls: [],
  standsIn: false,
  roles: new Set(),
  hasOtherRoles: false,
});

/** Adds the events to the sequences; returns the key of the sequence for each event. */
function collectEventKeys(
  { slots, events, streams }: DelayPlan,
  units: readonly Unit[],
  found: Map<string, CallSequence>,
): string[] {
  const keys: string[] = [];
  for (const [slot, stream] of slots.stream.entries()) {
    const { name, file, isInOrder } = units[stream]!;
    const key = isInOrder ? name : `${slots.tid[slot]} ${name}`;
    const sequence = found.get(key) ?? createSequence(file);
    found.set(key, sequence);
    sequence.roles.add(buildRolePattern(streams[stream]!.comm));
    const first = slots.firstEvent[slot]!;
    for (let event = first; event < first + slots.eventCount[slot]!; event++) {
      sequence.events.push(event);
      keys[event] = key;
    }
  }
  for (const sequence of found.values())
    sequence.events.sort((one, other) => events.offset_ns[one]! - events.offset_ns[other]! || one - other);
  return keys;
}

/**
 * Finds the unit of each merged stream of the runner: by an event that one of its calls got, or by its path if no call
 * got an event.
 */
function findRunnerUnits(calls: CallReport, said: RunnerStatus, units: readonly Unit[], plan: DelayPlan) {
  const found = new Map<number, Unit>();
  for (let at = 0; at < calls.count; at++) {
    const event = getMatchedEvent(calls, at);
    if (event !== NONE && !found.has(calls.stream[at]!))
      found.set(calls.stream[at]!, units[findEventStream(plan, event)]!);
  }
  for (const [number, { op_class, path }] of said.streams) {
    if (found.has(number)) continue;
    const stream = plan.streams.findIndex(
      (one) => buildClasslessKey(one) === path && isSync(one.op) === (op_class === 'sync'),
    );
    if (stream >= 0) found.set(number, units[stream]!);
  }
  return found;
}

/** For each thread of the run and each unit, finds the recorded thread from which the thread got most of its events. */
function findThreadKeys(calls: CallReport, eventKeys: readonly string[], units: ReadonlyMap<number, Unit>) {
  const counts = new Map<string, Map<string, number>>();
  for (let at = 0; at < calls.count; at++) {
    const event = getMatchedEvent(calls, at);
    const unit = units.get(calls.stream[at]!);
    if (!unit || unit.isInOrder || event === NONE) continue;
    const thread = `${calls.tid[at]} ${unit.name}`;
    const ofThread = counts.get(thread) ?? new Map<string, number>();
    ofThread.set(eventKeys[event]!, (ofThread.get(eventKeys[event]!) ?? 0) + 1);
    counts.set(thread, ofThread);
  }
  return new Map(
    [...counts].map(([thread, ofThread]) => [thread, [...ofThread].reduce((a, b) => (b[1] > a[1] ? b : a))[0]]),
  );
}

/** Sorts the calls by the time at which the helper received them. The report has them in the order of the answers. */
export function sortByReception({ receivedNs, count }: CallReport): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, at) => at);
  return order.sort((one, other) => receivedNs[one]! - receivedNs[other]! || one - other);
}

/** Builds the input of the alignment from the events of `recorded` and the calls of `made`. */
export function pairSequences(
  plan: DelayPlan,
  calls: CallReport,
  recorded: CallSequence,
  made: CallSequence,
): Sequences {
  const placeOf = new Map(recorded.events.map((event, place) => [event, place]));
  const convertSize = (size: number) => (size === SIZE_UNKNOWN ? NO_SIZE : size);
  return {
    planned: Float64Array.from(recorded.events, (event) => convertSize(plan.events.size[event]!)),
    made: Float64Array.from(made.calls, (at) => convertSize(calls.size[at]!)),
    isPlannedSync: Uint8Array.from(recorded.events, (event) =>
      Number(isSync(plan.streams[findEventStream(plan, event)]!.op)),
    ),
    isMadeSync: Uint8Array.from(made.calls, (at) => Number(calls.op[at]! >= OPS.fsync)),
    taken: Int32Array.from(made.calls, (at) => placeOf.get(getMatchedEvent(calls, at)) ?? -1),
  };
}
