/**
 * Follows a fleet from a position. A batch has losses and late events in their order of arrival, and then events in the
 * total order, up to `lagNs` ago. An event counts only after its segment has arrived. If an event's row is visible
 * before its segment, the event is returned later, as a late event.
 */

import { crc32 } from 'node:zlib';
import { type RowOf, requireSingleRow } from '../../../agent/clickhouse/connection/rows.ts';
import { and, list, or, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { listScopes, parseReason, parseScope, parseSums } from '../../../agent/recording/format/losses.ts';
import { min, U64_MAX } from '../../base/bigints.ts';
import { formatEventId, parseEventId } from '../../base/event_id.ts';
import { yieldToEventLoop } from '../../base/event_loop.ts';
import { readEventKey } from '../blocks/event.ts';
import { encodeJsonRows } from '../blocks/event_json.ts';
import type { ScannedBlock } from '../blocks/scanned_block.ts';
import type { EventFilter, Followed, FollowedBatch, FollowPosition, FollowRequest, NodeLoss } from '../store.ts';
import { createAnswerBlocks, formatRecordingId, type RowKey } from './answer_blocks.ts';
import { buildEventConditionSql } from './event_condition.ts';
import { chooseTableSql, type Fleet, readRows } from './fleet.ts';
import { buildEventSql, buildFollowingSql, scanFleet } from './scan.ts';

/** Number of rows that one batch reads. It limits the memory of a batch that waits for a slow client. */
const BATCH_ROWS = 1024;
/** Number of segments whose late events are read by one statement. */
const SEGMENTS_TOGETHER = 64;
/** Interval at which the tables are queried. If more events are due, the next query follows at once. */
const QUERY_EVERY_NS = 1_000_000_000n;

/**
 * State that a position's id omits. Without this state, a tail repeats late events that arrived in the last OVERLAP_S
 * seconds.
 */
interface Memory {
  /** Names of recent segments whose late events were returned. */
  readonly segments: ReadonlySet<string>;
  /** Counts of the losses that were returned, by name. */
  readonly losses: ReadonlyMap<string, number>;
  /** Segments whose late events were returned only up to the key `after`. */
  readonly late?: { segments: readonly ArrivedSegment[]; after: RowKey | undefined } | undefined;
  /** Time of the last query of the tables; undefined if more events are due. */
  readonly queriedNs?: bigint | undefined;
}

interface KnownPosition extends FollowPosition, ArrivalPosition {
  readonly memory: Memory;
}

const EMPTY: Memory = { segments: new Set(), losses: new Map() };
let positions = 0;

/**
 * Creates a position that encodes its id on demand. Most positions are only passed to the next `follow`, which needs no
 * id.
 */
function createKnownPosition(position: ArrivalPosition, memory: Memory): KnownPosition {
  const { fromNs, key, arrivedS } = position;
  const sharedAs = `fleet ${++positions}`;
  return {
    fromNs,
    key,
    arrivedS,
    memory,
    sharedAs,
    get id() {
      return encodePosition(position);
    },
  };
}

/**
 * Returns the position of a new tail. The tail begins with events that arrive from now on, or with events that began at
 * `sinceNs` or later. `horizonNs` is approximately now.
 */
export async function startFollowing(
  fleet: Fleet,
  filter: EventFilter,
  { horizonNs, sinceNs, lagNs }: { horizonNs: bigint; sinceNs: bigint | undefined; lagNs: bigint },
): Promise<FollowPosition> {
  const arrivals = await readArrivals(fleet, (await askNow(fleet)) - OVERLAP_S, filter);
  const fromNs = sinceNs === undefined ? undefined : sinceNs < 0n ? 0n : sinceNs > U64_MAX ? U64_MAX : sinceNs;
  const before = fromNs === undefined ? horizonNs - lagNs : fromNs - 1n;
  const key = endOfTime(before > 0n ? before : 0n);
  return createKnownPosition({ fromNs: fromNs ?? 0n, key, arrivedS: arrivals.nowS }, buildMemory(arrivals, EMPTY));
}

export function parseFollowPosition(id: string): FollowPosition | undefined {
  const position = decodePosition(id);
  return position && createKnownPosition(position, EMPTY);
}

/** Builds the memory of a tail after all arrived events and losses were returned. */
function buildMemory({ segments, losses }: Arrivals, before: Memory, queriedNs?: bigint): Memory {
  return {
    segments: new Set(segments.map(({ name }) => name)),
    losses: new Map([...before.losses, ...losses.map(({ name, lost }) => [name, lost] as const)]),
    queriedNs,
  };
}

interface FleetBatchDraft {
  position: ArrivalPosition;
  memory: Memory;
  readonly followed: Followed[];
}

function buildBatch({ position, memory, followed }: FleetBatchDraft, complete: boolean): FollowedBatch {
  return { followed, position: createKnownPosition(position, memory), complete };
}

/** Returns the batch that follows a position; undefined if `signal` aborts. */
export async function follow(
  fleet: Fleet,
  request: FollowRequest,
  lagNs: bigint,
  signal: AbortSignal,
): Promise<FollowedBatch | undefined> {
  const { filter, nowNs } = request;
  const { memory, ...position } = request.position as KnownPosition;
  const { queriedNs } = memory;
  if (queriedNs !== undefined && nowNs >= queriedNs && nowNs - queriedNs < QUERY_EVERY_NS)
    return { followed: [], position: request.position, complete: true };
  const sinceS = position.arrivedS - OVERLAP_S;
  const arrivals = await readArrivals(fleet, sinceS, filter);
  const draft: FleetBatchDraft = { position, memory, followed: [] };
  addLosses(draft, arrivals);
  if (!(await addLate(fleet, filter, arrivals, draft, signal)))
    return signal.aborted ? undefined : buildBatch(draft, false);
  draft.memory = buildMemory(arrivals, draft.memory, nowNs);
  draft.position = { ...draft.position, arrivedS: arrivals.nowS };
  const horizonNs = nowNs - lagNs;
  if (horizonNs <= draft.position.key.timestampNs) return buildBatch(draft, true);
  return addOrdered(fleet, { filter, horizonNs, sinceS }, draft, signal);
}

function addLosses(draft: FleetBatchDraft, { losses }: Arrivals): void {
  const { key } = draft.position;
  const counts = new Map(draft.memory.losses);
  for (const { name, ...loss } of losses) {
    const before = counts.get(name);
    if (before !== undefined && before >= loss.lost) continue;
    counts.set(name, loss.lost);
    const fromNs = loss.cause === 'retention' && loss.fromNs < key.timestampNs ? key.timestampNs : loss.fromNs;
    // Skips a loss by retention if it removed only events that this tail has already returned.
    if (loss.cause === 'retention' && loss.toNs < fromNs) continue;
    const lost = loss.lost - (before ?? 0);
    draft.followed.push({ kind: 'lost', id: encodePosition(draft.position), loss: { ...loss, fromNs, lost } });
  }
  draft.memory = { ...draft.memory, losses: counts };
}

/** Adds events that arrived after the key had passed their time. Returns false if there are more such events. */
async function addLate(
  fleet: Fleet,
  filter: EventFilter,
  { segments }: Arrivals,
  draft: FleetBatchDraft,
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
    const { rows, readTo } = await readLateRows(fleet, { filter, fromNs, key, ...late, rowsMax: left });
    if (signal.aborted) return false;
    for (const { json } of rows) addEvent(draft, json(), true);
    left -= rows.length;
    if (readTo) late = { ...late, after: readTo };
    else {
      for (const { name } of late.segments) done.add(name);
      late = undefined;
    }
    if (left <= 0) {
      draft.memory = { ...draft.memory, segments: done, late, queriedNs: undefined };
      return false;
    }
    await yieldToEventLoop();
  }
}

function addEvent(draft: FleetBatchDraft, json: string, isLate: boolean): void {
  draft.followed.push({ kind: 'event', id: encodePosition(draft.position), json, isLate });
}

async function addOrdered(
  fleet: Fleet,
  { filter, horizonNs, sinceS }: { filter: EventFilter; horizonNs: bigint; sinceS: bigint },
  draft: FleetBatchDraft,
  signal: AbortSignal,
): Promise<FollowedBatch | undefined> {
  const { fromNs, key } = draft.position;
  const after = {
    timestamp_ns: key.timestampNs,
    event_id: formatEventId(formatRecordingId(key.recording), key.number),
  };
  const window = { ...filter, fromNs, toNs: horizonNs + 1n };
  const rows: FollowedRow[] = [];
  for await (const scanned of scanFleet(fleet, { filter: window, order: 'asc', after, limit: BATCH_ROWS })) {
    if (signal.aborted) return undefined;
    rows.push(...readBlockRows(scanned));
  }
  const keys = rows.map((row) => row.key);
  const hasArrived = await createArrivalTest(fleet, keys, sinceS, draft.memory.segments);
  if (signal.aborted) return undefined;
  for (const row of rows) {
    if (!hasArrived(row.key)) continue;
    draft.position = { ...draft.position, key: row.key };
    addEvent(draft, row.json(), false);
  }
  const isComplete = rows.length < BATCH_ROWS;
  draft.position = { ...draft.position, key: isComplete ? endOfTime(horizonNs) : rows.at(-1)!.key };
  if (!isComplete) draft.memory = { ...draft.memory, queriedNs: undefined };
  return buildBatch(draft, isComplete);
}

/*
 * The position of a live tail in the tables of a fleet. Events up to `key` were returned if their segments had arrived
 * before `arrivedS`, by the server's clock. Events up to `key` that arrive later are late events. The position is
 * encoded as an id, opaque to clients:
 *
 *   [version u8][checksum 4 bytes][from ns u64][key: timestamp ns u64, recording u64, number u64][arrived s u32]
 */

interface ArrivalPosition {
  /** Earliest start of the requested events. */
  readonly fromNs: bigint;
  readonly key: RowKey;
  readonly arrivedS: bigint;
}

/** Version of the encoded positions in a fleet. Positions in recordings have version 1. */
const VERSION = 2;
const [CHECKSUM, FROM, KEY_TIME, KEY_RECORDING, KEY_NUMBER, ARRIVED, END] = [1, 5, 13, 21, 29, 37, 41] as const;

/** Returns a key that sorts after every event of this time. */
function endOfTime(timestampNs: bigint): RowKey {
  return { timestampNs, recording: U64_MAX, number: U64_MAX };
}

export function encodePosition({ fromNs, key, arrivedS }: ArrivalPosition): string {
  const bytes = Buffer.alloc(END);
  bytes.writeUInt8(VERSION);
  bytes.writeBigUInt64BE(fromNs, FROM);
  bytes.writeBigUInt64BE(key.timestampNs, KEY_TIME);
  bytes.writeBigUInt64BE(key.recording, KEY_RECORDING);
  bytes.writeBigUInt64BE(key.number, KEY_NUMBER);
  bytes.writeUInt32BE(Number(arrivedS), ARRIVED);
  bytes.writeUInt32BE(crc32(bytes.subarray(FROM)), CHECKSUM);
  return bytes.toString('base64url');
}

/** Decodes an id; returns undefined if the text is not the id of a position. */
export function decodePosition(text: string): ArrivalPosition | undefined {
  const bytes = Buffer.from(text, 'base64url');
  // Buffer.from skips invalid characters, so the text is accepted only if encoding the bytes returns the same text.
  const isOurs =
    bytes.length === END &&
    bytes.toString('base64url') === text &&
    bytes[0] === VERSION &&
    crc32(bytes.subarray(FROM)) === bytes.readUInt32BE(CHECKSUM);
  if (!isOurs) return undefined;
  return {
    fromNs: bytes.readBigUInt64BE(FROM),
    key: {
      timestampNs: bytes.readBigUInt64BE(KEY_TIME),
      recording: bytes.readBigUInt64BE(KEY_RECORDING),
      number: bytes.readBigUInt64BE(KEY_NUMBER),
    },
    arrivedS: BigInt(bytes.readUInt32BE(ARRIVED)),
  };
}

/* Recent arrivals at a fleet: segments and losses, by the server's clock. */

/**
 * Overlap of each query of arrivals with the previous query, in seconds. A row may become visible up to this much later
 * than its time of arrival, and the clocks of servers differ.
 */
const OVERLAP_S = 5n;

export interface ArrivedSegment {
  /** Name of the segment, which stays the same if the segment is sent again. */
  name: string;
  recording: bigint;
  firstNumber: bigint;
  endNumber: bigint;
  node: string;
  firstNs: bigint;
  lastNs: bigint;
}

interface ArrivedLoss extends NodeLoss {
  name: string;
}

interface Arrivals {
  /** Server time of the query. */
  nowS: bigint;
  /** Segments in order of arrival. */
  segments: ArrivedSegment[];
  losses: ArrivedLoss[];
}

async function askNow(fleet: Fleet): Promise<bigint> {
  const asked = sql`SELECT toUInt64(toUnixTimestamp(now())) AS seconds`;
  return requireSingleRow(await readRows(fleet, asked, { seconds: 'number' })).seconds;
}

/** Returns the segments and losses that first arrived at `sinceS` or later. */
async function readArrivals(fleet: Fleet, sinceS: bigint, filter: EventFilter): Promise<Arrivals> {
  const nowS = await askNow(fleet);
  const bound = sql`toDateTime(${sinceS > 0n ? sinceS : 0n})`;
  return {
    nowS,
    segments: (await readRows(fleet, buildSegmentsSql(fleet, bound, filter), SEGMENT)).map(toArrivedSegment),
    losses: (await readRows(fleet, buildLossesSql(fleet, bound, filter), LOSS)).map(toArrivedLoss),
  };
}

function buildSegmentsSql(fleet: Fleet, bound: Sql, filter: EventFilter): Sql {
  const table = chooseTableSql(fleet, 'segment');
  return sql`SELECT recording, first_number, max(end_number) AS end, any(node) AS at, min(t_min) AS first, max(t_max) AS last
FROM ${table} WHERE ${buildArrivedSql(fleet, sql`recording, first_number`, table, bound)} AND ${buildNodesSql(filter)}
GROUP BY recording, first_number HAVING min(arrived) >= ${bound} ORDER BY min(arrived), recording, first_number`;
}

/**
 * Builds the statement for losses. A loss whose count has grown is a new arrival; a loss that was only sent again is no
 * new arrival.
 */
function buildLossesSql(fleet: Fleet, bound: Sql, filter: EventFilter): Sql {
  const table = chooseTableSql(fleet, 'loss');
  return sql`SELECT recording, loss_id, any(node) AS at, any(cause) AS why, any(scope) AS part, any(sums) AS more, min(from_ns) AS first, max(to_ns) AS last,
  max(count) AS lost, max(if(arrived < ${bound}, count, 0)) AS before, toUInt64(min(arrived) < ${bound}) AS is_known
FROM ${table} WHERE ${buildArrivedSql(fleet, sql`recording, loss_id`, table, bound)} AND ${buildNodesSql(filter)} AND ${buildScopeSql(filter)}
GROUP BY recording, loss_id HAVING lost > before OR is_known = 0 ORDER BY min(arrived), recording, loss_id`;
}

/** Builds the condition for keys that have a row that arrived at `bound` or later. */
function buildArrivedSql(fleet: Fleet, key: Sql, table: Sql, bound: Sql): Sql {
  const keys = sql`(SELECT ${key} FROM ${table} WHERE arrived >= ${bound})`;
  return fleet.isCluster ? sql`(${key}) GLOBAL IN ${keys}` : sql`(${key}) IN ${keys}`;
}

/** Builds the condition on losses: a tail of a transaction has that transaction's parts of divided losses. */
function buildScopeSql({ transactionId }: EventFilter): Sql {
  const scopes = listScopes(transactionId === undefined ? undefined : { transactionId });
  return sql`scope IN (${list(scopes.map(text))})`;
}

/** Builds the condition on nodes. A tail has no events or losses of excluded nodes. */
function buildNodesSql({ nodes, excluded }: EventFilter): Sql {
  const buildNameListSql = (some: readonly string[]) => list([...new Set(some)].map(text));
  return and([
    ...(nodes ? [nodes.length > 0 ? sql`node IN (${buildNameListSql(nodes)})` : sql`0`] : []),
    ...(excluded?.nodes?.length ? [sql`node NOT IN (${buildNameListSql(excluded.nodes)})`] : []),
  ]);
}

const SEGMENT = {
  recording: 'number',
  first_number: 'number',
  end: 'number',
  at: 'text',
  first: 'number',
  last: 'number',
} as const;

function toArrivedSegment(row: RowOf<typeof SEGMENT>): ArrivedSegment {
  return {
    name: nameArrival(row.recording, row.first_number),
    recording: row.recording,
    firstNumber: row.first_number,
    endNumber: row.end,
    node: row.at,
    firstNs: row.first,
    lastNs: row.last,
  };
}

function nameArrival(recording: bigint, number: bigint): string {
  return `${recording}:${number}`;
}

const LOSS = {
  recording: 'number',
  loss_id: 'number',
  at: 'text',
  why: 'text',
  part: 'text',
  more: 'text',
  first: 'number',
  last: 'number',
  lost: 'number',
} as const;

function toArrivedLoss(row: RowOf<typeof LOSS>): ArrivedLoss {
  return {
    name: nameArrival(row.recording, row.loss_id),
    fromNs: row.first,
    toNs: row.last,
    lost: Number(row.lost),
    ...parseReason(row.why),
    ...parseScope(row.part),
    ...parseSums(row.more),
    node: row.at,
  };
}

/** Returns a test for whether an event's segment arrived before `sinceS` or is one of `names`. */
async function createArrivalTest(
  fleet: Fleet,
  keys: readonly RowKey[],
  sinceS: bigint,
  names: ReadonlySet<string>,
): Promise<(key: RowKey) => boolean> {
  if (keys.length === 0) return () => false;
  const wanted = [...Map.groupBy(keys, ({ recording }) => recording)].map(([recording, own]) => {
    const numbers = own.map(({ number }) => number).sort((a, b) => (a < b ? -1 : 1));
    return sql`(recording = ${recording} AND first_number <= ${numbers.at(-1)!} AND end_number > ${numbers[0]!})`;
  });
  const statement = sql`SELECT recording, first_number, max(end_number) AS end, toUInt64(toUnixTimestamp(min(arrived))) AS since
FROM ${chooseTableSql(fleet, 'segment')} WHERE ${or(wanted)} GROUP BY recording, first_number`;
  const shape = { recording: 'number', first_number: 'number', end: 'number', since: 'number' } as const;
  const rows = await readRows(fleet, statement, shape);
  const known = rows.filter((row) => row.since < sinceS || names.has(nameArrival(row.recording, row.first_number)));
  const byRecording = Map.groupBy(known, ({ recording }) => recording);
  return ({ recording, number }) =>
    (byRecording.get(recording) ?? []).some((row) => row.first_number <= number && row.end > number);
}

/* Reads the events of some segments up to a key. */

interface LateRequest {
  filter: EventFilter;
  segments: readonly ArrivedSegment[];
  /** Earliest start of the events. */
  fromNs: bigint;
  /** Inclusive upper bound of the events' keys. */
  key: RowKey;
  /** Exclusive lower bound of the events' keys; undefined if there is none. */
  after: RowKey | undefined;
  rowsMax: number;
}

interface LateRows {
  /** The rows, in the total order. */
  rows: FollowedRow[];
  /** Last key that was read; undefined if there are no more rows. */
  readTo: RowKey | undefined;
}

async function readLateRows(fleet: Fleet, request: LateRequest): Promise<LateRows> {
  const { filter, segments, fromNs, key, after, rowsMax } = request;
  const condition = buildEventConditionSql(filter);
  if (!condition) return { rows: [], readTo: undefined };
  const earliestNs = segments.map(({ firstNs }) => firstNs).reduce(min);
  const conditions = [
    or(segments.map(buildInSegmentSql)),
    sql`NOT ${buildFollowingSql(key, 'asc')}`,
    ...(after ? [buildFollowingSql(after, 'asc')] : []),
    condition,
  ];
  const blocks = createAnswerBlocks();
  const times = { firstNs: earliestNs > fromNs ? earliestNs : fromNs, lastNs: key.timestampNs };
  const asked = { selected: blocks.selected, times, conditions, order: 'asc' as const, rowsMax };
  const rows: FollowedRow[] = [];
  let found = 0;
  for await (const decoded of fleet.connection.select(buildEventSql(fleet, asked, false), { whole: true })) {
    found += decoded.rowCount;
    for (const scanned of blocks.read(decoded, rowsMax)) rows.push(...readBlockRows(scanned));
  }
  return { rows, readTo: found < rowsMax ? undefined : blocks.last };
}

function buildInSegmentSql({ recording, firstNumber, endNumber }: ArrivedSegment): Sql {
  return sql`(recording = ${recording} AND number >= ${firstNumber} AND number < ${endNumber})`;
}

/* Rows of blocks, each with its key and its JSON. */

interface FollowedRow {
  key: RowKey;
  json(): string;
}

function* readBlockRows(scanned: ScannedBlock): Generator<FollowedRow> {
  const { rowCount } = scanned.block;
  if (rowCount === 0) return;
  const { bytes, ends } = encodeJsonRows(scanned);
  for (let row = 0; row < rowCount; row++) {
    const { timestamp_ns: timestampNs, event_id } = readEventKey(scanned, row);
    const { recordingId, number } = parseEventId(event_id)!;
    const key = { timestampNs, recording: BigInt(`0x${recordingId}`), number };
    yield { key, json: () => bytes.toString('utf8', row === 0 ? 0 : ends[row - 1], ends[row]) };
  }
}
