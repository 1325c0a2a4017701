/**
 * Follows recordings from a position. Each batch has, in this order: losses, late events in their order of arrival, and
 * events in the total order up to the horizon.
 */

import { yieldToEventLoop } from '../../base/event_loop.ts';
import { readEventKey } from '../blocks/event.ts';
import { encodeJsonRows } from '../blocks/event_json.ts';
import type { EventKey, RecordingBlock } from '../blocks/scanned_block.ts';
import type { EventFilter, Followed, FollowedBatch, FollowPosition, FollowRequest, NodeLoss } from '../store.ts';
import {
  buildStartPosition,
  decodePosition,
  encodePosition,
  endOfTime,
  isAfter,
  type RecordingPosition,
  type RecordingsPosition,
} from './follow_position.ts';
import type { Extent, Recordings } from './recordings.ts';

/** Number of rows that one batch reads. It limits the memory of a batch that waits for a slow client. */
const BATCH_ROWS = 1024;

/** The position of a tail. It contains more state than its id, which omits state that can be recomputed. */
interface KnownPosition extends FollowPosition, RecordingsPosition {}

/**
 * Creates a position that encodes its id on demand. Most positions are only passed to the next `follow`, which needs no
 * id.
 */
function createKnownPosition(position: RecordingsPosition): KnownPosition {
  return {
    ...position,
    get id() {
      return encodePosition(position);
    },
  };
}

export function startFollowing(
  recordings: Recordings,
  filter: EventFilter,
  horizonNs: bigint,
  sinceNs: bigint | undefined,
): FollowPosition {
  return createKnownPosition(buildStartPosition(selectExtents(recordings, filter), horizonNs, sinceNs));
}

/**
 * Returns the extents of the nodes that the filter selects, because a tail has no events or losses of excluded nodes.
 */
function selectExtents(recordings: Recordings, { nodes, excluded }: EventFilter): readonly Extent[] {
  return recordings.extents(nodes).filter(({ node }) => !excluded?.nodes?.includes(node));
}

export function parseFollowPosition(id: string): FollowPosition | undefined {
  const position = decodePosition(id);
  return position && createKnownPosition(position);
}

/** Returns the batch that follows a position; undefined if `signal` aborts. */
export async function follow(
  recordings: Recordings,
  request: FollowRequest,
  signal: AbortSignal,
): Promise<FollowedBatch | undefined> {
  const { filter, horizonNs } = request;
  const position = request.position as KnownPosition;
  const extents = selectExtents(recordings, filter);
  const draft: BatchDraft = {
    fromNs: position.fromNs,
    key: position.key,
    places: buildPlaces(position.places, extents),
    followed: [],
  };
  addLosses(recordings, { filter, extents }, draft);
  for (const _ of recordings.lookForFiles(filter)) {
    await yieldToEventLoop(signal);
    if (signal.aborted) return undefined;
  }
  for (const extent of extents) {
    if (!addLate(recordings, filter, extent, draft)) return buildBatch(draft, false);
    await yieldToEventLoop(signal);
    if (signal.aborted) return undefined;
  }
  if (horizonNs <= draft.key.timestamp_ns) return buildBatch(draft, true);
  return addOrdered(recordings, request, draft, signal);
}

interface BatchDraft {
  readonly fromNs: bigint;
  key: EventKey;
  readonly places: Map<string, RecordingPosition>;
  readonly followed: Followed[];
}

function buildBatch({ followed, ...position }: BatchDraft, complete: boolean): FollowedBatch {
  return { followed, position: createKnownPosition(position), complete };
}

/**
 * Returns the place in each recording. If `known` lacks a recording, all its events are new, unless it is an import.
 */
function buildPlaces(known: RecordingsPosition['places'], extents: readonly Extent[]): Map<string, RecordingPosition> {
  const places = new Map([...known].map(([id, place]) => [id, { ...place }]));
  for (const { recordingId, end, lossId, isImport } of extents) {
    if (places.has(recordingId)) continue;
    places.set(recordingId, isImport ? { number: end, given: end, lossId } : { number: 0, given: 0, lossId: 0 });
  }
  return places;
}

function addLosses(
  recordings: Recordings,
  { filter, extents }: { filter: EventFilter; extents: readonly Extent[] },
  draft: BatchDraft,
): void {
  const { transactionId } = filter;
  const parts = transactionId === undefined ? undefined : { transactionId };
  for (const { recordingId, node, end, lossId, isImport } of extents) {
    const place = draft.places.get(recordingId)!;
    if (isImport) continue;
    const noted = lossId > place.lossId ? recordings.lossesAfter(recordingId, place.lossId, parts) : [];
    place.lossId = lossId;
    for (const loss of noted) {
      // Retention is reported below, because only the removal of events that this tail has not sent yet counts.
      if (loss.cause !== 'retention') addLoss(draft, { ...loss, node });
    }
    const removed = recordings.countRemoved(recordingId, place.given, end);
    if (removed.count === 0) continue;
    place.given = removed.next;
    const { timestamp_ns: fromNs } = draft.key;
    const { count: lost, toNs } = removed;
    if (toNs >= fromNs) addLoss(draft, { lost, cause: 'retention', fromNs, toNs, node });
  }
}

function addLoss(draft: BatchDraft, loss: NodeLoss): void {
  draft.followed.push({ kind: 'lost', id: encodePosition(draft), loss });
}

function addEvent(draft: BatchDraft, json: string, isLate: boolean): void {
  draft.followed.push({ kind: 'event', id: encodePosition(draft), json, isLate });
}

/** Adds events that were recorded after the key had passed their time. Returns false if there are more such events. */
function addLate(
  recordings: Recordings,
  filter: EventFilter,
  { recordingId, end }: Extent,
  draft: BatchDraft,
): boolean {
  const place = draft.places.get(recordingId)!;
  if (place.number >= end) return true;
  const { fromNs, key } = draft;
  const window = { fromNs, toNs: key.timestamp_ns + 1n };
  const request = { recordingId, filter: { ...filter, ...window }, from: place.number, end, limit: BATCH_ROWS };
  const arrived = recordings.arrivals(request);
  for (const { key: itsKey, number, json } of arrived ? readBlockRows(arrived.scanned) : []) {
    if (isAfter(itsKey, key)) continue;
    place.number = number + 1;
    addEvent(draft, json(), true);
  }
  place.number = arrived?.next ?? end;
  return place.number === end;
}

async function addOrdered(
  recordings: Recordings,
  { filter, horizonNs, nowNs }: FollowRequest,
  draft: BatchDraft,
  signal: AbortSignal,
): Promise<FollowedBatch | undefined> {
  const window = { fromNs: draft.fromNs, toNs: horizonNs + 1n };
  const request = { filter: { ...filter, ...window }, order: 'asc', after: draft.key, limit: BATCH_ROWS } as const;
  let rows = 0;
  for (const scanned of recordings.scan(request)) {
    const { recordingId } = scanned.dictionary;
    const place = draft.places.get(recordingId);
    rows += scanned.block.rowCount;
    for (const { key, number, json } of readBlockRows(scanned)) {
      // An event recorded after this batch began is sent by the next batch, as a late event.
      if (!place || number >= place.number) continue;
      draft.key = key;
      place.given = Math.max(place.given, number + 1);
      addEvent(draft, json(), false);
    }
    await yieldToEventLoop(signal);
    if (signal.aborted) return undefined;
  }
  if (rows >= BATCH_ROWS) return buildBatch(draft, false);
  draft.key = endOfTime(horizonNs);
  for (const place of draft.places.values()) passWaiting(place, horizonNs, nowNs);
  return buildBatch(draft, true);
}

/**
 * Updates `given` for events that the filter rejects. They are never sent, so they count as given when the key has
 * passed the times of all of them.
 */
function passWaiting(place: RecordingPosition, horizonNs: bigint, nowNs: bigint): void {
  const { waiting } = place;
  if (waiting && waiting.beforeNs > horizonNs) return;
  if (waiting) place.given = Math.max(place.given, waiting.number);
  place.waiting = { number: place.number, beforeNs: nowNs };
}

interface ScannedRow {
  key: EventKey;
  number: number;
  json(): string;
}

function* readBlockRows(scanned: RecordingBlock): Generator<ScannedRow> {
  const { block } = scanned;
  const { bytes, ends } = encodeJsonRows(scanned);
  for (let row = 0; row < block.rowCount; row++) {
    const json = () => bytes.toString('utf8', row === 0 ? 0 : ends[row - 1], ends[row]);
    yield { key: readEventKey(scanned, row), number: Number(block.numbers[row]), json };
  }
}
