/**
 * Computes the effect of extra latency on a transaction without playing it. Each latency for which a thread waits
 * delays the end of the event that got it and the ends of the thread's later events, so one pass in recorded order is
 * enough:
 *
 *   end(latency) = recorded end + latency * (how often its thread has waited for the latency by then)
 *
 * The smallest latency with which an event would end after the deadline follows from the same equation.
 */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { formatEventId } from '../../base/event_id.ts';
import { Problem } from '../../base/problem.ts';
import { createThreadDelay, endCall, goOn, type ThreadDelay, take } from '../../model/thread_delay.ts';
import { createOwnEventTest, OWN_EVENT_COLUMNS } from '../../store/blocks/own_events.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../../store/blocks/scanned_block.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import {
  type AppliedOffsets,
  checkNodes,
  createClockShiftLookup,
  type ReplayedClock,
  readReplayedClocks,
} from './clock_offsets.ts';
import {
  addLine,
  addRequest,
  type Curve,
  createThreadLines,
  listThreadLines,
  mergeCurveLines,
  type ThreadLines,
} from './curves.ts';
import { callTest, createAffectedTest, ONLY_COLUMNS, type OnlyFilter } from './recorded.ts';

export interface WhatIfRequest extends AppliedOffsets {
  transactionId: string;
  extraLatencyNs: bigint;
  timeoutNs: bigint | null;
  only: OnlyFilter;
  /** Maximum number of events after the deadline that are returned. */
  limit: number;
}

/** An event and its projected time. */
export interface ProjectedEvent {
  event: ApiEvent;
  /** Offset from the start of the transaction. */
  offsetNs: bigint;
  durationNs: bigint;
}

export interface WhatIf {
  clocks: ReplayedClock[];
  eventCount: number;
  /** Number of write-back events. No caller waits for them, so they are never late and add nothing to a duration. */
  writtenBackCount: number;
  /** Number of events that get the latency. */
  affectedCount: number;
  /** The duration without latency. */
  recordedDurationNs: bigint;
  durationNs: bigint;
  /** The duration as a function of the latency. */
  curve: Curve;
  afterTimeoutCount: number;
  /** The first events after the deadline, in order of projected start. */
  afterTimeout: ProjectedEvent[];
  /** The smallest latency with which an event would end after the deadline; null if no latency is large enough. */
  smallestLatencyNs: bigint | null;
}

interface Candidate {
  eventId: string;
  /** Number of events before this event, in recorded order. */
  place: number;
  startNs: bigint;
  durationNs: bigint;
}

/** An own event that has begun. The number of latencies that delay its end is not known yet. */
interface Begun {
  recordingId: string;
  number: bigint;
  place: number;
  /** Recorded start and end. */
  startNs: bigint;
  endNs: bigint;
  /** Number of latencies that delay the event's start. */
  latencies: number;
}

interface ProjectedThread {
  delay: ThreadDelay<bigint>;
  lines: ThreadLines;
  /** The call under way, or the last call. The object is reused for the next call. */
  call: Begun;
  /** Whether a call is under way and is an own event. */
  isInOwnCall: boolean;
}

function createBegun(): Begun {
  return { recordingId: '', number: 0n, place: 0, startNs: 0n, endNs: 0n, latencies: 0 };
}

const COLUMNS = ['timestamp_ns', 'duration_ns', 'tid', ...ONLY_COLUMNS, ...OWN_EVENT_COLUMNS];

/**
 * Computes the effect of extra latency. Yields between blocks, so that other work can run. Throws a Problem if no event
 * of the transaction is recorded.
 */
export function* computeWhatIf(recordings: Recordings, request: WhatIfRequest): Generator<void, WhatIf> {
  const { transactionId, extraLatencyNs, timeoutNs, only, limit } = request;
  const byNode = new Map<string, Map<number, ProjectedThread>>();
  const affected = createAffectedTest(only);
  const late: Candidate[] = [];
  checkNodes(request, recordings);
  const nodes = recordings.findTransaction(transactionId)?.nodes ?? recordings.nodes();
  const origins = createOriginLookup(recordings, request, nodes);
  let [eventCount, writtenBackCount, affectedCount, afterTimeoutCount] = [0, 0, 0, 0];
  let [recordedDurationNs, durationNs] = [0n, 0n];
  let smallestLatencyNs: bigint | null = null;
  /** The object is reused for each block request. */
  const blockRequest = createBegun();
  let hasOwn = false;
  let firstNs: bigint | undefined;
  let lastEndNs = 0n;

  function add(scanned: RecordingBlock): void {
    const { block, dictionary } = scanned;
    const timestamps = getBigColumn(block, 'timestamp_ns');
    const durations = getBigColumn(block, 'duration_ns');
    const tids = getColumn(block, 'tid');
    const isOwn = createOwnEventTest(scanned, transactionId);
    const isAffected = affected(scanned);
    const isCallAt = callTest(scanned);
    const lanes = byNode.get(dictionary.node) ?? new Map<number, ProjectedThread>();
    byNode.set(dictionary.node, lanes);
    const originNs = origins(dictionary.node);
    for (let row = 0; row < block.rowCount; row++) {
      firstNs ??= timestamps[row]!;
      if (timestamps[row]! + durations[row]! > lastEndNs) lastEndNs = timestamps[row]! + durations[row]!;
      const startNs = timestamps[row]! - originNs;
      const recordedEndNs = startNs + durations[row]!;
      const isCall = isCallAt(row);
      const isLonger = isAffected(row);
      let lane = lanes.get(tids[row]!);
      if (!lane) {
        lane = { delay: createThreadDelay(), lines: createThreadLines(), call: createBegun(), isInOwnCall: false };
        lanes.set(tids[row]!, lane);
      }
      const { delay, lines } = lane;
      const isOwnRow = isOwn(row);
      hasOwn ||= isOwnRow;
      if (hasOwn) {
        if (goOn(delay, startNs, isCall)) callEnded(lane);
        take(delay, recordedEndNs, isCall, isLonger ? 1 : 0);
      }
      if (isLonger) affectedCount++;
      const place = eventCount++;
      if (!isOwnRow) {
        writtenBackCount++;
        continue;
      }
      if (recordedEndNs > recordedDurationNs) recordedDurationNs = recordedEndNs;
      const begun = isCall ? lane.call : blockRequest;
      begun.recordingId = dictionary.recordingId;
      begun.number = block.numbers[row]!;
      begun.place = place;
      begun.startNs = startNs;
      begun.endNs = recordedEndNs;
      begun.latencies = delay.added;
      lane.isInOwnCall ||= isCall;
      if (isCall) continue;
      addRequest(lines, delay.added, isLonger, recordedEndNs);
      countEnded(begun, delay.added + (isLonger ? 1 : 0));
    }
  }

  function callEnded(lane: ProjectedThread): void {
    const { delay, lines, call, isInOwnCall } = lane;
    if (!isInOwnCall) return;
    lane.isInOwnCall = false;
    addLine(lines.calls, { events: BigInt(delay.added), endNs: call.endNs });
    countEnded(call, delay.added);
  }

  function countEnded(
    { recordingId, number, place, startNs, latencies, endNs: recordedEndNs }: Begun,
    all: number,
  ): void {
    const count = BigInt(all);
    const endNs = recordedEndNs + count * extraLatencyNs;
    if (endNs > durationNs) durationNs = endNs;
    if (timeoutNs === null) return;
    const neededNs = recordedEndNs > timeoutNs ? 0n : count > 0n ? (timeoutNs - recordedEndNs) / count + 1n : null;
    if (neededNs !== null && (smallestLatencyNs === null || neededNs < smallestLatencyNs)) smallestLatencyNs = neededNs;
    if (endNs <= timeoutNs) return;
    afterTimeoutCount++;
    const projectedNs = startNs + BigInt(latencies) * extraLatencyNs;
    const last = late.at(-1);
    if (late.length === limit && (!last || projectedNs > last.startNs)) return;
    const eventId = formatEventId(recordingId, number);
    insert(late, { eventId, place, startNs: projectedNs, durationNs: endNs - projectedNs }, limit);
  }

  for (const scanned of recordings.scan({ filter: { transactionId }, order: 'asc', columns: COLUMNS })) {
    add(scanned);
    yield;
  }
  const threads = [...byNode.values()].flatMap((lanes) => [...lanes.values()]);
  for (const lane of threads) if (endCall(lane.delay)) callEnded(lane);
  if (firstNs === undefined)
    throw new Problem('transaction_not_found', `no events of transaction ${transactionId} are recorded`);
  const afterTimeout = late.flatMap(({ eventId, startNs, durationNs: lengthNs }) => {
    const event = recordings.event(eventId);
    return event ? [{ event, offsetNs: startNs, durationNs: lengthNs }] : [];
  });
  const clocks = readReplayedClocks(recordings, request, nodes, [firstNs, lastEndNs]);
  const counts = { eventCount, writtenBackCount, affectedCount, afterTimeoutCount };
  const curve = mergeCurveLines(threads.flatMap(({ lines }) => listThreadLines(lines)));
  return { clocks, ...counts, recordedDurationNs, durationNs, curve, afterTimeout, smallestLatencyNs };
}

/** Returns a function that computes the start of the transaction's first own event by the clock of a node. */
function createOriginLookup(
  recordings: Recordings,
  { transactionId, clockOffsetsNs }: WhatIfRequest,
  nodes: readonly string[],
): (node: string) => bigint {
  const shiftNs = createClockShiftLookup(clockOffsetsNs, nodes);
  let firstNs: bigint | undefined;
  for (const node of nodes) {
    const startNs = findFirstOwnStart(recordings, transactionId, node);
    if (startNs === undefined) continue;
    const shiftedNs = startNs + shiftNs(node);
    if (firstNs === undefined || shiftedNs < firstNs) firstNs = shiftedNs;
  }
  return (node) => (firstNs ?? 0n) - shiftNs(node);
}

function findFirstOwnStart(recordings: Recordings, transactionId: string, node: string) {
  const filter = { transactionId, nodes: [node] };
  const columns = ['timestamp_ns', ...OWN_EVENT_COLUMNS];
  for (const scanned of recordings.scan({ filter, order: 'asc', columns })) {
    const isOwn = createOwnEventTest(scanned, transactionId);
    for (let row = 0; row < scanned.block.rowCount; row++)
      if (isOwn(row)) return getBigColumn(scanned.block, 'timestamp_ns')[row]!;
  }
  return undefined;
}

/**
 * Inserts a candidate by start, or by recorded order if starts are equal; drops the last candidate if the list exceeds
 * the limit.
 */
function insert(list: Candidate[], candidate: Candidate, limit: number): void {
  const { startNs, place } = candidate;
  const before = list.findLastIndex((one) => one.startNs < startNs || (one.startNs === startNs && one.place < place));
  list.splice(before + 1, 0, candidate);
  if (list.length > limit) list.pop();
}
