/**
 * Scans the table `event` in the total order, in steps of time. A page mostly needs only the first time bucket, and
 * sorting more rows would cost the server time and memory. Steps grow while they find few rows:
 *
 *   buckets   | 1 | 2     | 4             | 8 ...
 */

import type { RowOf } from '../../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import { readPins } from '../../../agent/clickhouse/pins/pins.ts';
import { and, columns, list, type Sql, sql, text, unionAll } from '../../../agent/clickhouse/statements/sql.ts';
import { buildTimeRangeSql } from '../../../agent/clickhouse/tables/event_times.ts';
import { TRACE_ID, TRANSACTION_ID } from '../../../agent/clickhouse/tables/schema.ts';
import type { EventFilter } from '../../../agent/recording/read/event_filter.ts';
import { parseEventId } from '../../base/event_id.ts';
import type { EventKey, ScannedBlock } from '../blocks/scanned_block.ts';
import type { ScanRequest } from '../store.ts';
import { type AnswerBlocks, createAnswerBlocks, createUnexpectedError, type RowKey } from './answer_blocks.ts';
import { buildEventConditionSql, computeTimeRange, parseTraceId, type StartRange } from './event_condition.ts';
import { chooseTableSql, type Fleet, readRows } from './fleet.ts';
import { readTransactionRows } from './transactions_by_id.ts';

/** Maximum number of rows that one statement returns. The server keeps this many rows in memory while it sorts. */
const STATEMENT_ROWS_MAX = 65_536;
/**
 * Minimum row limit of a statement, for large rows such as rows with long paths. This many rows never exceed the size
 * limit of an answer.
 */
const STATEMENT_ROWS_MIN = 1024;
const STEP_NS_MAX = 2n ** 64n;
const STEP_NS_MIN = 1_000_000n;
/** A step is planned for this many times the wanted rows, because events are not spread evenly over time. */
const ROWS_SPARE = 2;

type Order = ScanRequest['order'];

/** Yields the events that the filter and the conditions in `also` select. */
export async function* scanFleet(
  fleet: Fleet,
  { filter, order, after, limit = Number.POSITIVE_INFINITY, columns: wanted }: ScanRequest,
  also: readonly Sql[] = [],
): AsyncGenerator<ScannedBlock, void> {
  const condition = buildEventConditionSql(filter);
  const times = computeTimeRange(filter);
  if (!condition || !times || limit <= 0) return;
  const oldestNs = await fleet.oldestNs();
  const found = await findScanRanges(fleet, filter, times, oldestNs);
  const blocks = createAnswerBlocks(wanted);
  const steps = createSteps(found, {
    order,
    fleet,
    wholeRows: isOfTimesAlone(filter) && also.length === 0 ? Math.min(limit, STATEMENT_ROWS_MAX) : undefined,
  });
  const isProbed = steps.areLong && isWorthProbing({ selected: blocks.selected, limit });
  let key = after && toRowKey(after);
  let left = limit;
  let statementRowsMax = STATEMENT_ROWS_MAX;
  if (key) steps.skipTo(key.timestampNs);
  for (let step = steps.next(); step; step = steps.next()) {
    const rowsMax = Math.min(left, statementRowsMax);
    const conditions = [...(key ? [buildFollowingSql(key, order)] : []), ...found.more, ...also, condition];
    const asked = { times: step, conditions, order, rowsMax, selectFew: found.events === undefined };
    const withPinned = step.firstNs < oldestNs;
    if (isProbed) {
      const { range, hasMore } = await probe(fleet, asked, withPinned);
      if (!range) {
        steps.pass(true);
        yield blocks.createEmptyBlock();
        continue;
      }
      asked.times = range;
      if (hasMore) steps.cutTo(range);
    }
    const statement = buildEventSql(fleet, { ...asked, selected: blocks.selected }, withPinned);
    const rows = { found: 0, returned: 0 };
    let isTooLarge = false;
    try {
      for await (const scanned of readBlocks(fleet, statement, blocks, { left, rowsMax }, rows)) yield scanned;
    } catch (error) {
      isTooLarge = error instanceof ServerError && error.code === 'too_large' && rowsMax > STATEMENT_ROWS_MIN;
      if (!isTooLarge) throw error;
      statementRowsMax = Math.max(STATEMENT_ROWS_MIN, Math.floor(rowsMax / 8));
    }
    left -= rows.returned;
    if (left <= 0) return;
    if (isTooLarge && rows.found === 0) continue;
    if (isTooLarge || rows.found >= rowsMax) {
      key = blocks.last!;
      steps.stopAt(key.timestampNs);
    } else {
      steps.pass(rows.found < STATEMENT_ROWS_MAX / 2);
      if (rows.returned === 0) yield blocks.createEmptyBlock();
    }
  }
}

async function* readBlocks(
  { connection }: Fleet,
  statement: Sql,
  blocks: AnswerBlocks,
  { left, rowsMax }: { left: number; rowsMax: number },
  rows: { found: number; returned: number },
): AsyncGenerator<ScannedBlock, void> {
  for await (const decoded of connection.select(statement)) {
    if (rows.found + decoded.rowCount > rowsMax) throw createUnexpectedError('it has more rows');
    rows.found += decoded.rowCount;
    for (const scanned of blocks.read(decoded, left - rows.returned)) {
      rows.returned += scanned.block.rowCount;
      yield scanned;
    }
  }
}

function isOfTimesAlone({ fromNs: _, toNs: __, ...others }: ScanRequest['filter']): boolean {
  return Object.values(others).every((value) => value === undefined);
}

interface Steps {
  /** Whether a step may contain far more rows than the scan wants. */
  readonly areLong: boolean;
  /** Returns the current step; undefined after the last step. */
  next(): StartRange | undefined;
  /** Skips all times that precede `timeNs` in the order of the scan. */
  skipTo(timeNs: bigint): void;
  /** Reports that the step was read only up to `timeNs`. The next step begins at `timeNs` and is shorter. */
  stopAt(timeNs: bigint): void;
  /** Shortens the current step so that it ends where this range ends. */
  cutTo(range: StartRange): void;
  /** Reports that the current step was read to its end. */
  pass(foundLittle: boolean): void;
}

interface StepOptions {
  order: Order;
  fleet: Fleet;
  /** Number of wanted rows, if the scan selects rows only by time; otherwise undefined. */
  wholeRows: number | undefined;
}

function createSteps(
  { ranges: ascending, events }: ScanRanges,
  { order, fleet: { bucketNs }, wholeRows }: StepOptions,
): Steps {
  const isAscending = order === 'asc';
  const ranges = isAscending ? [...ascending] : ascending.toReversed();
  const areShort = events === undefined;
  let lengthNs = areShort ? STEP_NS_MAX : bucketNs;
  // If the scan selects all rows, a part of a bucket may suffice, and the server need not sort the rest.
  if (events && wholeRows !== undefined) {
    const [{ firstNs, lastNs }] = ranges as [StartRange];
    const enoughNs = ((lastNs - firstNs) * BigInt(ROWS_SPARE * wholeRows)) / events;
    if (enoughNs < lengthNs) lengthNs = enoughNs > STEP_NS_MIN ? enoughNs : STEP_NS_MIN;
  }
  let current: StartRange | undefined;

  /** Computes the first step of a range; it ends where a bucket ends. */
  function computeFirstStep({ firstNs, lastNs }: StartRange): StartRange {
    const buckets = lengthNs / bucketNs;
    if (isAscending) {
      const endNs = buckets === 0n ? firstNs + lengthNs : (firstNs / bucketNs + buckets) * bucketNs;
      return { firstNs, lastNs: endNs - 1n < lastNs ? endNs - 1n : lastNs };
    }
    const startNs = buckets === 0n ? lastNs - lengthNs + 1n : (lastNs / bucketNs - buckets + 1n) * bucketNs;
    return { firstNs: startNs > firstNs ? startNs : firstNs, lastNs };
  }

  function skipTo(timeNs: bigint): void {
    while (ranges[0] && (isAscending ? ranges[0].lastNs < timeNs : ranges[0].firstNs > timeNs)) ranges.shift();
    const [range] = ranges;
    if (!range) return;
    if (isAscending && range.firstNs < timeNs) ranges[0] = { ...range, firstNs: timeNs };
    if (!isAscending && range.lastNs > timeNs) ranges[0] = { ...range, lastNs: timeNs };
  }

  return {
    areLong: !areShort && wholeRows === undefined,
    cutTo({ firstNs, lastNs }) {
      current = isAscending ? { ...current!, lastNs } : { ...current!, firstNs };
    },
    next() {
      current = ranges[0] && computeFirstStep(ranges[0]);
      return current;
    },
    skipTo,
    stopAt(timeNs) {
      skipTo(timeNs);
      if (lengthNs > STEP_NS_MIN && !areShort) lengthNs /= 2n;
    },
    pass(foundLittle) {
      skipTo(isAscending ? current!.lastNs + 1n : current!.firstNs - 1n);
      if (foundLittle && lengthNs < STEP_NS_MAX) lengthNs *= 2n;
    },
  };
}

/** Builds the condition for rows that come after a key in the order. */
export function buildFollowingSql({ timestampNs, recording, number }: RowKey, order: Order): Sql {
  const beyond = order === 'asc' ? sql`>` : sql`<`;
  return sql`(timestamp_ns ${beyond} ${timestampNs} OR (timestamp_ns = ${timestampNs} AND (recording ${beyond} ${recording} OR (recording = ${recording} AND number ${beyond} ${number}))))`;
}

/** Converts the key of an event to the key of a row. A text that is not an event id sorts before all ids. */
function toRowKey({ timestamp_ns: timestampNs, event_id }: EventKey): RowKey {
  const id = parseEventId(event_id);
  return { timestampNs, recording: id ? BigInt(`0x${id.recordingId}`) : 0n, number: id?.number ?? 0n };
}

/*
 * Finds the part of a step that contains the rows of a page, by a probe that reads only times. The probe takes a
 * fraction of the time that reading all columns takes. The part is short if the filter selects few rows or the page
 * needs few rows:
 *
 *   step          |                                  |
 *   selected          x   x x   x     x  x   x  x
 *   a page of 4      [-----------]
 */

/** Maximum number of rows for which a probe is made; longer answers skip it, because they need most rows of a step. */
const PROBED_ROWS_MAX = 16_384;
/** Minimum number of columns for which a probe is made; smaller reads skip it. */
const PROBED_COLUMNS_MIN = 12;

interface ProbeRequest extends Pick<ScanRequest, 'limit'> {
  selected: readonly string[];
}

function isWorthProbing({ selected, limit = Number.POSITIVE_INFINITY }: ProbeRequest): boolean {
  return selected.length >= PROBED_COLUMNS_MIN && limit <= PROBED_ROWS_MAX;
}

interface Probed {
  /** Range from the first row to the last row, of at most `rowsMax` rows; undefined if there are no rows. */
  range: StartRange | undefined;
  /** Whether the step may have more rows. */
  hasMore: boolean;
}

async function probe(fleet: Fleet, asked: AskedTimes, withPinned: boolean): Promise<Probed> {
  const statement = sql`SELECT toUInt64(count()) AS found, min(timestamp_ns) AS first_ns, max(timestamp_ns) AS last_ns
FROM (${buildEventTimesSql(fleet, asked, withPinned)})`;
  const [row] = await readRows(fleet, statement, { found: 'number', first_ns: 'number', last_ns: 'number' });
  if (!row || row.found === 0n) return { range: undefined, hasMore: false };
  const range = { firstNs: row.first_ns, lastNs: row.last_ns };
  return { range, hasMore: row.found === BigInt(asked.rowsMax) };
}

/* Finds the time ranges in which the table `event` may have rows that match a filter. */

interface ScanRanges {
  /** Ranges in ascending order, with gaps between them. */
  ranges: StartRange[];
  /** Additional conditions with which the server finds the rows by the table's key. */
  more: Sql[];
  /** Number of all events in the ranges, regardless of the filter; undefined for short ranges, which need no steps. */
  events: bigint | undefined;
}

/** Ranges that are at most this many buckets apart are read as one range. */
const GAP_BUCKETS = 2n;
const TOUCHED = { t_min: 'number', t_max: 'number', owners: 'texts' } as const;

/** Finds the ranges to scan. Of the events that began before `oldestNs`, only pinned events are left. */
async function findScanRanges(
  fleet: Fleet,
  filter: EventFilter,
  times: StartRange,
  oldestNs: bigint,
): Promise<ScanRanges> {
  const { transactionId, traceId } = filter;
  if (transactionId !== undefined) return findIdRanges(fleet, TRANSACTION_ID, transactionId, times, oldestNs);
  const trace = traceId === undefined ? undefined : parseTraceId(traceId);
  if (trace) return findIdRanges(fleet, TRACE_ID, traceId!, times, oldestNs);
  const nodes = filter.nodes?.length ? [sql`node IN (${list(filter.nodes.map(text))})`] : [];
  const { ranges, ...rest } = await findSegmentRanges(fleet, nodes, times);
  if (times.firstNs >= oldestNs) return { ranges, ...rest };
  const all = [...ranges, ...(await findPinRanges(fleet, times))].sort(compareStarts);
  return { ranges: joinRanges(all, GAP_BUCKETS * fleet.bucketNs), ...rest };
}

async function findIdRanges(
  fleet: Fleet,
  kind: number,
  id: string,
  times: StartRange,
  oldestNs: bigint,
): Promise<ScanRanges> {
  const rows: RowOf<typeof TOUCHED>[] = [];
  const tables = times.firstNs < oldestNs ? (['by_id', 'pinned_by_id'] as const) : (['by_id'] as const);
  for (const table of tables) rows.push(...(await readTouchedRows(fleet, table, { kind, id, times })));
  const owners = new Set(rows.flatMap((row) => row.owners));
  const found = rows.map(({ t_min, t_max }) => ({ firstNs: t_min, lastNs: t_max })).sort(compareStarts);
  return {
    ranges: joinRanges(found, GAP_BUCKETS * fleet.bucketNs).map((range) => clipRange(range, times)),
    more: owners.size > 0 ? [sql`owner IN (${list([...owners].map(text))})`] : [],
    events: undefined,
  };
}

async function readTouchedRows(
  fleet: Fleet,
  table: 'by_id' | 'pinned_by_id',
  { kind, id, times }: { kind: number; id: string; times: StartRange },
): Promise<RowOf<typeof TOUCHED>[]> {
  if (fleet.answered && kind === TRANSACTION_ID) {
    const { firstNs, lastNs } = times;
    const rows = await readTransactionRows(fleet, table, id);
    return rows.filter(({ t_min, t_max }) => t_max >= firstNs && t_min <= lastNs);
  }
  const statement = sql`SELECT t_min, t_max, owners FROM ${chooseTableSql(fleet, table)}
PREWHERE kind = ${kind} AND id = ${text(id)} AND ${touches(times)}`;
  return readRows(fleet, statement, TOUCHED);
}

/** Finds the range of committed segments, because rows of other segments do not belong to an answer yet. */
async function findSegmentRanges(fleet: Fleet, conditions: readonly Sql[], times: StartRange): Promise<ScanRanges> {
  const statement = sql`SELECT sum(n) AS events, min(t_min) AS first_ns, max(t_max) AS last_ns
FROM ${chooseTableSql(fleet, 'segment')} WHERE ${and([...conditions, touches(times)])}`;
  const [row] = await readRows(fleet, statement, { events: 'number', first_ns: 'number', last_ns: 'number' });
  if (!row || row.events === 0n) return { ranges: [], more: [], events: 0n };
  const whole = { firstNs: row.first_ns, lastNs: row.last_ns };
  const range = clipRange(whole, times);
  // This estimate assumes that events are spread evenly.
  const share = (computeLengthNs(range) * row.events) / computeLengthNs(whole);
  return { ranges: [range], more: [], events: share };
}

/** Finds the ranges in which pins keep events. */
async function findPinRanges(fleet: Fleet, times: StartRange): Promise<StartRange[]> {
  const pins = await readPins(fleet.connection, fleet);
  return pins
    .filter(({ fromNs, endNs }) => endNs >= times.firstNs && fromNs <= times.lastNs)
    .map(({ fromNs, endNs }) => clipRange({ firstNs: fromNs, lastNs: endNs }, times));
}

function compareStarts(a: StartRange, b: StartRange): number {
  return a.firstNs < b.firstNs ? -1 : a.firstNs > b.firstNs ? 1 : 0;
}

function touches({ firstNs, lastNs }: StartRange): Sql {
  return sql`t_max >= ${firstNs} AND t_min <= ${lastNs}`;
}

/** Returns the overlap of two ranges. Bounds are inclusive, and the ranges must overlap. */
function clipRange(range: StartRange, { firstNs, lastNs }: StartRange): StartRange {
  return {
    firstNs: range.firstNs > firstNs ? range.firstNs : firstNs,
    lastNs: range.lastNs < lastNs ? range.lastNs : lastNs,
  };
}

function computeLengthNs({ firstNs, lastNs }: StartRange): bigint {
  return lastNs - firstNs + 1n;
}

/** Joins ranges that are at most `gapNs` apart; they must be ordered by start. */
function joinRanges(ranges: readonly StartRange[], gapNs: bigint): StartRange[] {
  const found: StartRange[] = [];
  for (const range of ranges) {
    const last = found.at(-1);
    if (!last || range.firstNs > last.lastNs + gapNs) found.push({ ...range });
    else if (range.lastNs > last.lastNs) last.lastNs = range.lastNs;
  }
  return found;
}

/*
 * Statements that read events in the total order, including pinned events that retention has dropped from the table
 * `event`.
 */

interface AskedEvents {
  selected: readonly string[];
  conditions: readonly Sql[];
  order: Order;
  rowsMax: number;
  /** Whether only few of the rows in the time range meet the other conditions. */
  selectFew?: boolean;
}

/**
 * Builds the statement that reads events. A pinned event that retention has not dropped has several adjacent rows in
 * the answer.
 */
export function buildEventSql(fleet: Fleet, asked: AskedEvents & { times: StartRange }, withPinned: boolean): Sql {
  const conditions = [buildTimeRangeSql(fleet.bucketNs, asked.times), ...asked.conditions];
  const kept = selectFrom(chooseTableSql(fleet, 'event'), { ...asked, conditions });
  if (!withPinned) return kept;
  const pinned = selectFrom(chooseTableSql(fleet, 'pinned_event'), { ...asked, conditions });
  const both = unionAll([sql`SELECT * FROM (${kept})`, sql`SELECT * FROM (${pinned})`]);
  return sql`SELECT ${columns(asked.selected)} FROM (${both}) ${buildEndSql(asked)}`;
}

type AskedTimes = Omit<AskedEvents, 'selected'> & { times: StartRange };

/** Selects the times of the events that `buildEventSql` selects. */
function buildEventTimesSql(fleet: Fleet, asked: AskedTimes, withPinned: boolean): Sql {
  const condition = and([buildTimeRangeSql(fleet.bucketNs, asked.times), ...asked.conditions]);
  const first = sql`ORDER BY timestamp_ns ${asked.order === 'asc' ? sql`` : sql`DESC`} LIMIT ${asked.rowsMax}`;
  const buildTimesSql = (table: string) =>
    sql`SELECT timestamp_ns FROM ${chooseTableSql(fleet, table)} WHERE ${condition} ${first}`;
  if (!withPinned) return buildTimesSql('event');
  const both = ['event', 'pinned_event'].map((table) => sql`SELECT * FROM (${buildTimesSql(table)})`);
  return sql`SELECT timestamp_ns FROM (${unionAll(both)}) ${first}`;
}

export function buildPinnedSql(fleet: Fleet, asked: AskedEvents): Sql {
  return selectFrom(chooseTableSql(fleet, 'pinned_event'), asked);
}

/**
 * Builds the selection from one table. The server reads the other columns only for rows that PREWHERE selects. By
 * default, PREWHERE contains all conditions. If `selectFew` is set, the server itself chooses a condition other than
 * the time range for PREWHERE.
 */
function selectFrom(table: Sql, asked: AskedEvents): Sql {
  return sql`SELECT ${columns(asked.selected)} FROM ${table}
${asked.selectFew ? sql`WHERE` : sql`PREWHERE`} ${and(asked.conditions)} ${buildEndSql(asked)}`;
}

function buildEndSql({ order, rowsMax }: AskedEvents): Sql {
  return sql`ORDER BY ${buildOrderSql(order)} LIMIT ${rowsMax}`;
}

function buildOrderSql(order: Order): Sql {
  return order === 'asc' ? sql`timestamp_ns, recording, number` : sql`timestamp_ns DESC, recording DESC, number DESC`;
}
