/**
 * Makes the frames that follow a position, in this order: losses, late events as they arrived, then events in the total
 * order up to the horizon. The id of each frame is the position after it.
 */

import { stringify } from '../exact_json.ts';
import { nextPiece } from '../pace.ts';
import { formatFrame } from '../sse.ts';
import { createByteText } from '../store/byte_text.ts';
import { keyOf } from '../store/event.ts';
import { eventJson } from '../store/event_json.ts';
import type { EventFilter, EventKey, Extent, ScannedBlock, Store } from '../store/store.ts';
import { encodePosition, endOfTime, isAfter, type Position, type RecordingPosition } from './position.ts';

/** Rows that one batch examines; it bounds the memory that a client with a full socket can hold. */
const BATCH_ROWS = 1024;

export interface Batch {
  text: string;
  /** The position after the batch. */
  position: Position;
  /** Whether nothing more is due. */
  complete: boolean;
}

export interface BatchRequest {
  store: Store;
  /** Contains no times. */
  filter: EventFilter;
  position: Position;
  /** Events that began after this wait for others that began earlier. */
  horizonNs: bigint;
  /** All recorded events began before this. */
  nowNs: bigint;
}

/** Returns undefined if `signal` aborts. */
export async function nextBatch(request: BatchRequest, signal: AbortSignal): Promise<Batch | undefined> {
  const { store, filter, position, horizonNs } = request;
  const extents = store.extents(filter.nodes);
  const draft: Draft = {
    fromNs: position.fromNs,
    key: position.key,
    places: placesFor(position.places, extents),
    text: '',
  };
  tellLosses(store, extents, draft);
  for (const extent of extents) {
    if (!addLate(store, filter, extent, draft)) return batchOf(draft, false);
    await nextPiece();
    if (signal.aborted) return undefined;
  }
  if (horizonNs <= draft.key.timestamp_ns) return batchOf(draft, true);
  return addOrdered(request, draft, signal);
}

interface Draft {
  readonly fromNs: bigint;
  key: EventKey;
  readonly places: Map<string, RecordingPosition>;
  text: string;
}

function batchOf({ text, ...position }: Draft, complete: boolean): Batch {
  return { text, position, complete };
}

/** A recording that appeared since is new from its first event on; an import has nothing new. */
function placesFor(known: Position['places'], extents: readonly Extent[]): Map<string, RecordingPosition> {
  const places = new Map([...known].map(([id, place]) => [id, { ...place }]));
  for (const { recordingId, end, lossId, isImport } of extents) {
    if (places.has(recordingId)) continue;
    places.set(recordingId, isImport ? { number: end, given: end, lossId } : { number: 0, given: 0, lossId: 0 });
  }
  return places;
}

function tellLosses(store: Store, extents: readonly Extent[], draft: Draft): void {
  for (const { recordingId, node, end, lossId, isImport } of extents) {
    const place = draft.places.get(recordingId)!;
    if (isImport) continue;
    const noted = lossId > place.lossId ? store.lossesAfter(recordingId, place.lossId) : [];
    place.lossId = lossId;
    for (const { fromNs, toNs, lost, cause } of noted) {
      // Retention mostly removes events that this tail has sent; the loss of others is reported below.
      if (cause !== 'retention') tellLoss(draft, { lost, cause, from: fromNs, to: toNs, node });
    }
    const removed = store.removed(recordingId, place.given, end);
    if (removed.count === 0) continue;
    place.given = removed.next;
    const { timestamp_ns: from } = draft.key;
    if (removed.toNs < from) continue;
    tellLoss(draft, { lost: removed.count, cause: 'retention', from, to: removed.toNs, node });
  }
}

function tellLoss(draft: Draft, loss: { lost: number; cause: string; from: bigint; to: bigint; node: string }): void {
  draft.text += formatFrame('lost', stringify(loss), encodePosition(draft));
}

/** Adds events that were recorded after the key had passed their time. Returns false if there are more. */
function addLate(store: Store, filter: EventFilter, { recordingId, end }: Extent, draft: Draft): boolean {
  const place = draft.places.get(recordingId)!;
  if (place.number >= end) return true;
  const { fromNs, key } = draft;
  const window = { fromNs, toNs: key.timestamp_ns + 1n };
  const request = { recordingId, filter: { ...filter, ...window }, from: place.number, end, limit: BATCH_ROWS };
  const arrived = store.arrivals(request);
  for (const { key: itsKey, number, json } of arrived ? rowsOf(arrived.scanned) : []) {
    if (isAfter(itsKey, key)) continue;
    place.number = number + 1;
    draft.text += formatFrame('event', `${json().slice(0, -1)},"late":true}`, encodePosition(draft));
  }
  place.number = arrived?.next ?? end;
  return place.number === end;
}

async function addOrdered(
  { store, filter, horizonNs, nowNs }: BatchRequest,
  draft: Draft,
  signal: AbortSignal,
): Promise<Batch | undefined> {
  const window = { fromNs: draft.fromNs, toNs: horizonNs + 1n };
  const request = { filter: { ...filter, ...window }, order: 'asc', after: draft.key, limit: BATCH_ROWS } as const;
  let rows = 0;
  for (const scanned of store.scan(request)) {
    const { recordingId } = scanned.dictionary;
    const place = draft.places.get(recordingId);
    rows += scanned.block.rowCount;
    for (const { key, number, json } of rowsOf(scanned)) {
      // Recorded after this batch began: the next batch sends it, as late.
      if (!place || number >= place.number) continue;
      draft.key = key;
      place.given = Math.max(place.given, number + 1);
      draft.text += formatFrame('event', json(), encodePosition(draft));
    }
    await nextPiece();
    if (signal.aborted) return undefined;
  }
  if (rows >= BATCH_ROWS) return batchOf(draft, false);
  draft.key = endOfTime(horizonNs);
  for (const place of draft.places.values()) passWaiting(place, horizonNs, nowNs);
  return batchOf(draft, true);
}

/** Events that the filter rejects are never sent; they count as given once the key has passed all their times. */
function passWaiting(place: RecordingPosition, horizonNs: bigint, nowNs: bigint): void {
  const { waiting } = place;
  if (waiting && waiting.beforeNs > horizonNs) return;
  if (waiting) place.given = Math.max(place.given, waiting.number);
  place.waiting = { number: place.number, beforeNs: nowNs };
}

interface Row {
  key: EventKey;
  number: number;
  json(): string;
}

function* rowsOf(scanned: ScannedBlock): Generator<Row> {
  const { block, dictionary } = scanned;
  const text = createByteText();
  const write = eventJson(text)(scanned);
  for (let row = 0; row < block.rowCount; row++) {
    const json = () => {
      write(row);
      return text.take().toString();
    };
    yield { key: keyOf(block, row, dictionary.recordingId), number: Number(block.numbers[row]), json };
  }
}
