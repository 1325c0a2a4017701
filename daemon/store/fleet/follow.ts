/**
 * Follows a fleet from a position: losses and late events as they arrived, then events in the total order up to some
 * time ago. An event counts when its segment has arrived: rows of others may be there, and are given as late then.
 */
import { U64_MAX } from '../../base/bigints.ts';
import { formatEventId } from '../../base/event_id.ts';
import { yieldToEventLoop } from '../../base/event_loop.ts';
import type { EventFilter, Followed, FollowedBatch, FollowPosition, FollowRequest } from '../store.ts';
import type { RowKey } from './answer_blocks.ts';
import { recordingIdOf } from './answer_dictionary.ts';
import { type Arrivals, type ArrivedSegment, arrivedBefore, arrivedSince, askNow, OVERLAP_S } from './arrivals.ts';
import type { Fleet } from './fleet.ts';
import { decodePosition, encodePosition, endOfTime, type Position } from './follow_position.ts';
import { type FollowedRow, rowsOf } from './followed_rows.ts';
import { lateRows } from './late_rows.ts';
import { scanFleet } from './scan.ts';

/** Rows that one batch examines; it bounds the memory that a client with a full socket can hold. */
const BATCH_ROWS = 1024;
/** Segments whose late events are read by one statement. */
const SEGMENTS_TOGETHER = 64;
/** The tables are asked once in this time, unless more is due. */
const LOOK_EVERY_NS = 1_000_000_000n;

/** What a position's id leaves out: without it, late events of the overlap are given again. */
interface Memory {
  /** Segments of the overlap whose late events were given, and losses that were, with their counts. */
  readonly segments: ReadonlySet<string>;
  readonly losses: ReadonlyMap<string, number>;
  /** Segments of which only the late events up to a key were given. */
  readonly late?: { segments: readonly ArrivedSegment[]; after: RowKey | undefined } | undefined;
  /** When the tables were last asked; undefined if more is due. */
  readonly lookedNs?: bigint | undefined;
}

interface KnownPosition extends FollowPosition, Position {
  readonly memory: Memory;
}

const EMPTY: Memory = { segments: new Set(), losses: new Map() };
let positions = 0;

/** The id is made on demand: most positions are only continued. */
function known(position: Position, memory: Memory): KnownPosition {
  const { fromNs, key, arrivedS } = position;
  const sharedAs = `fleet ${++positions}`;
  return {
    ...{ fromNs, key, arrivedS, memory, sharedAs },
    get id() {
      return encodePosition(position);
    },
  };
}

/** The tail begins with what arrives from now on, or with what began at `sinceNs`; `horizonNs` is about now. */
export async function startFollowing(
  fleet: Fleet,
  filter: EventFilter,
  { horizonNs, sinceNs, lagNs }: { horizonNs: bigint; sinceNs: bigint | undefined; lagNs: bigint },
): Promise<FollowPosition> {
  const arrivals = await arrivedSince(fleet, (await askNow(fleet)) - OVERLAP_S, filter);
  const fromNs = sinceNs === undefined ? undefined : sinceNs < 0n ? 0n : sinceNs > U64_MAX ? U64_MAX : sinceNs;
  const before = fromNs === undefined ? horizonNs - lagNs : fromNs - 1n;
  const key = endOfTime(before > 0n ? before : 0n);
  return known({ fromNs: fromNs ?? 0n, key, arrivedS: arrivals.nowS }, memoryOf(arrivals, EMPTY));
}

export function positionOf(id: string): FollowPosition | undefined {
  const position = decodePosition(id);
  return position && known(position, EMPTY);
}

/** Everything that has arrived was given. */
function memoryOf({ segments, losses }: Arrivals, before: Memory, lookedNs?: bigint): Memory {
  return {
    segments: new Set(segments.map(({ name }) => name)),
    losses: new Map([...before.losses, ...losses.map(({ name, lost }) => [name, lost] as const)]),
    lookedNs,
  };
}

interface Draft {
  position: Position;
  memory: Memory;
  readonly followed: Followed[];
}

function batchOf({ position, memory, followed }: Draft, complete: boolean): FollowedBatch {
  return { followed, position: known(position, memory), complete };
}

/** Returns undefined if `signal` aborts. */
export async function follow(
  fleet: Fleet,
  request: FollowRequest,
  lagNs: bigint,
  signal: AbortSignal,
): Promise<FollowedBatch | undefined> {
  const { filter, nowNs } = request;
  const { memory, ...position } = request.position as KnownPosition;
  const { lookedNs } = memory;
  if (lookedNs !== undefined && nowNs >= lookedNs && nowNs - lookedNs < LOOK_EVERY_NS)
    return { followed: [], position: request.position, complete: true };
  const sinceS = position.arrivedS - OVERLAP_S;
  const arrivals = await arrivedSince(fleet, sinceS, filter);
  const draft: Draft = { position, memory, followed: [] };
  addLosses(draft, arrivals);
  if (!(await addLate(fleet, filter, arrivals, draft, signal)))
    return signal.aborted ? undefined : batchOf(draft, false);
  draft.memory = memoryOf(arrivals, draft.memory, nowNs);
  draft.position = { ...draft.position, arrivedS: arrivals.nowS };
  const horizonNs = nowNs - lagNs;
  if (horizonNs <= draft.position.key.timestampNs) return batchOf(draft, true);
  return addOrdered(fleet, { filter, horizonNs, sinceS }, draft, signal);
}

function addLosses(draft: Draft, { losses }: Arrivals): void {
  const { key } = draft.position;
  const counts = new Map(draft.memory.losses);
  for (const { name, ...loss } of losses) {
    const before = counts.get(name);
    if (before !== undefined && before >= loss.lost) continue;
    counts.set(name, loss.lost);
    const fromNs = loss.cause === 'retention' && loss.fromNs < key.timestampNs ? key.timestampNs : loss.fromNs;
    // Retention mostly removes events that this tail has given.
    if (loss.cause === 'retention' && loss.toNs < fromNs) continue;
    const lost = loss.lost - (before ?? 0);
    draft.followed.push({ kind: 'lost', id: encodePosition(draft.position), loss: { ...loss, fromNs, lost } });
  }
  draft.memory = { ...draft.memory, losses: counts };
}

/** Adds events that arrived after the key had passed their time. Returns false if there are more. */
async function addLate(
  fleet: Fleet,
  filter: EventFilter,
  { segments }: Arrivals,
  draft: Draft,
  signal: AbortSignal,
): Promise<boolean> {
  const { fromNs, key } = draft.position;
  const done = new Set(draft.memory.segments);
  let { late } = draft.memory;
  let left = BATCH_ROWS;
  for (;;) {
    const pending = segments.filter(({ name }) => !done.has(name));
    const withLate = pending.filter(({ firstNs, lastNs }) => firstNs <= key.timestampNs && lastNs >= fromNs);
    late ??= { segments: withLate.slice(0, SEGMENTS_TOGETHER), after: undefined };
    if (late.segments.length === 0) return true;
    const { rows, readTo } = await lateRows(fleet, { filter, fromNs, key, ...late, rowsMax: left });
    if (signal.aborted) return false;
    for (const { json } of rows) addEvent(draft, json(), true);
    left -= rows.length;
    if (readTo) late = { ...late, after: readTo };
    else {
      for (const { name } of late.segments) done.add(name);
      late = undefined;
    }
    if (left <= 0) {
      draft.memory = { ...draft.memory, segments: done, late, lookedNs: undefined };
      return false;
    }
    await yieldToEventLoop();
  }
}

function addEvent(draft: Draft, json: string, isLate: boolean): void {
  draft.followed.push({ kind: 'event', id: encodePosition(draft.position), json, isLate });
}

async function addOrdered(
  fleet: Fleet,
  { filter, horizonNs, sinceS }: { filter: EventFilter; horizonNs: bigint; sinceS: bigint },
  draft: Draft,
  signal: AbortSignal,
): Promise<FollowedBatch | undefined> {
  const { fromNs, key } = draft.position;
  const after = { timestamp_ns: key.timestampNs, event_id: formatEventId(recordingIdOf(key.recording), key.number) };
  const window = { ...filter, fromNs, toNs: horizonNs + 1n };
  const rows: FollowedRow[] = [];
  for await (const scanned of scanFleet(fleet, { filter: window, order: 'asc', after, limit: BATCH_ROWS })) {
    if (signal.aborted) return undefined;
    rows.push(...rowsOf(scanned));
  }
  const keys = rows.map((row) => row.key);
  const hasArrived = await arrivedBefore(fleet, keys, sinceS, draft.memory.segments);
  if (signal.aborted) return undefined;
  for (const row of rows) {
    if (!hasArrived(row.key)) continue;
    draft.position = { ...draft.position, key: row.key };
    addEvent(draft, row.json(), false);
  }
  const isComplete = rows.length < BATCH_ROWS;
  draft.position = { ...draft.position, key: isComplete ? endOfTime(horizonNs) : rows.at(-1)!.key };
  if (!isComplete) draft.memory = { ...draft.memory, lookedNs: undefined };
  return batchOf(draft, isComplete);
}
