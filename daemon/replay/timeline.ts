/**
 * A transaction as it was recorded: what replay needs to know of every event, in recorded order, 30 bytes each. Bodies
 * stay in the recordings. It is a snapshot: what is recorded later does not join a session that exists.
 */

import { formatEventId, parseEventId } from '../../agent/recording/event_id.ts';
import { Problem } from '../errors.ts';
import { bigColumn, column } from '../store/column.ts';
import type { EventKey, ScannedBlock, Store } from '../store/store.ts';

export interface Timeline {
  /** Those that its events are of. */
  recordingIds: readonly string[];
  count: number;
  firstTimestampNs: bigint;
  /** From the first event's start to the last end. */
  durationNs: bigint;
  /** From the first event's start. */
  startNs: BigUint64Array;
  durationsNs: BigUint64Array;
  /** Which thread, (node, tid), numbered from 0 in order of appearance. */
  thread: Uint32Array;
  threadCount: number;
  /** Place in `recordingIds`; together with the recording's number it makes the event id. */
  recording: Uint16Array;
  numbers: BigUint64Array;
}

/** A session indexes no more: 30 MB, 42 MB with extra latency. */
export const SESSION_EVENTS_MAX = 1_000_000;
/** Read at once, between two turns of the event loop; it keeps sessions that are playing on time. */
const SLICE_EVENTS = 4096;

/** Decoding the others would cost forty times as much. */
const COLUMNS = ['timestamp_ns', 'duration_ns', 'tid'];

/** Gives the event loop a turn. */
export type Breathe = () => Promise<void>;

export async function readTimeline(store: Store, transactionId: string, breathe: Breathe): Promise<Timeline> {
  // The summary says in good time what is too large; that it counts the same events as a scan is not relied on.
  const { eventCount } = found(transactionId, store.transaction(transactionId));
  checkSize(transactionId, eventCount);
  const index = emptyIndex(eventCount);
  let after: EventKey | undefined;
  let before: number;
  do {
    before = index.count;
    const request = { filter: { transactionId }, order: 'asc', limit: SLICE_EVENTS, columns: COLUMNS } as const;
    for (const scanned of store.scan({ ...request, ...(after && { after }) })) after = index.append(scanned) ?? after;
    checkSize(transactionId, index.count);
    await breathe();
  } while (index.count > before);
  return found(transactionId, index.finish());
}

function found<Value>(transactionId: string, value: Value | undefined): Value {
  if (value) return value;
  throw new Problem('transaction_not_found', `no events of transaction ${transactionId} are recorded`);
}

function checkSize(transactionId: string, eventCount: number): void {
  if (eventCount <= SESSION_EVENTS_MAX) return;
  const message = `transaction ${transactionId} has ${eventCount} events; a session holds at most ${SESSION_EVENTS_MAX}`;
  throw new Problem('invalid_body', message, [{ pointer: '/transaction_id', message }]);
}

function emptyIndex(capacity: number) {
  let startNs = new BigUint64Array(capacity);
  let durationsNs = new BigUint64Array(capacity);
  let thread = new Uint32Array(capacity);
  let recording = new Uint16Array(capacity);
  let numbers = new BigUint64Array(capacity);
  const threadsByNode = new Map<string, Map<number, number>>();
  const recordingIds: string[] = [];
  let count = 0;
  let threadCount = 0;
  let firstTimestampNs = 0n;
  let endNs = 0n;

  function makeRoom(needed: number): void {
    if (needed <= startNs.length) return;
    const length = Math.max(needed, 2 * startNs.length);
    startNs = resized(startNs, new BigUint64Array(length));
    durationsNs = resized(durationsNs, new BigUint64Array(length));
    thread = resized(thread, new Uint32Array(length));
    recording = resized(recording, new Uint16Array(length));
    numbers = resized(numbers, new BigUint64Array(length));
  }

  function placeOfRecording(id: string): number {
    const known = recordingIds.indexOf(id);
    return known < 0 ? recordingIds.push(id) - 1 : known;
  }

  return {
    get count() {
      return count;
    },
    /** Returns the key of the block's last event. */
    append({ block, dictionary }: ScannedBlock): EventKey | undefined {
      if (block.rowCount === 0) return undefined;
      makeRoom(count + block.rowCount);
      const timestamps = bigColumn(block, 'timestamp_ns');
      const durations = bigColumn(block, 'duration_ns');
      const tids = column(block, 'tid');
      const threads = threadsByNode.get(dictionary.node) ?? new Map<number, number>();
      threadsByNode.set(dictionary.node, threads);
      const place = placeOfRecording(dictionary.recordingId);
      if (count === 0) firstTimestampNs = timestamps[0]!;
      for (let row = 0; row < block.rowCount; row++, count++) {
        const start = timestamps[row]! - firstTimestampNs;
        const end = start + durations[row]!;
        if (end > endNs) endNs = end;
        const known = threads.get(tids[row]!) ?? threadCount++;
        threads.set(tids[row]!, known);
        startNs[count] = start;
        durationsNs[count] = durations[row]!;
        thread[count] = known;
        recording[count] = place;
        numbers[count] = block.numbers[row]!;
      }
      const last = block.rowCount - 1;
      const eventId = formatEventId(dictionary.recordingId, block.numbers[last]!);
      return { timestamp_ns: timestamps[last]!, event_id: eventId };
    },
    finish(): Timeline | undefined {
      if (count === 0) return undefined;
      return {
        recordingIds,
        count,
        firstTimestampNs,
        durationNs: endNs,
        startNs: startNs.subarray(0, count),
        durationsNs: durationsNs.subarray(0, count),
        thread: thread.subarray(0, count),
        threadCount,
        recording: recording.subarray(0, count),
        numbers: numbers.subarray(0, count),
      };
    },
  };
}

function resized<Column extends BigUint64Array | Uint32Array | Uint16Array>(from: Column, to: Column): Column {
  to.set(from as never);
  return to;
}

export function eventKey(timeline: Timeline, recorded: number): EventKey {
  const { recordingIds, firstTimestampNs, startNs, recording, numbers } = timeline;
  return {
    timestamp_ns: firstTimestampNs + startNs[recorded]!,
    event_id: formatEventId(recordingIds[recording[recorded]!]!, numbers[recorded]!),
  };
}

/** Undefined when it is not in the time line. */
export function recordedIndexOf({ recordingIds, recording, numbers }: Timeline, eventId: string): number | undefined {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  const place = recordingIds.indexOf(id.recordingId);
  let index = numbers.indexOf(id.number);
  // Each recording counts its events from 0.
  while (index >= 0 && recording[index] !== place) index = numbers.indexOf(id.number, index + 1);
  return index < 0 ? undefined : index;
}

/** The first place in ascending `values` that holds `wanted` or more; their length when there is none. */
export function lowerBound(values: BigUint64Array, wanted: bigint): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
