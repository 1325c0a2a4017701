/**
 * Scans the table `event` in the total order, in steps of time: a page mostly needs the first bucket alone, and sorting
 * more would take the server time and memory. Steps grow while they find little:
 *
 *   buckets   | 1 | 2     | 4             | 8 ...
 */
import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import { type Sql, sql } from '../../../agent/clickhouse/statements/sql.ts';
import { parseEventId } from '../../base/event_id.ts';
import type { EventKey, ScannedBlock } from '../blocks/scanned_block.ts';
import type { ScanRequest } from '../store.ts';
import { type AnswerBlocks, answerBlocks, type RowKey } from './answer_blocks.ts';
import { unexpected } from './answer_rows.ts';
import { eventCondition, type TimeRange, timesOf } from './event_condition.ts';
import { eventStatement } from './event_statement.ts';
import type { Fleet } from './fleet.ts';
import { isWorthProbing, probe } from './scan_probe.ts';
import { type ScanRanges, scanRanges } from './scan_ranges.ts';

/** Rows that one statement returns at most: the server keeps as many in memory to sort them. */
const STATEMENT_ROWS_MAX = 65_536;
/** Where so many would be too large, as with long paths, a statement returns fewer: any so many fit. */
const STATEMENT_ROWS_MIN = 1024;
const STEP_NS_MAX = 2n ** 64n;
const STEP_NS_MIN = 1_000_000n;
/** Events are not spread evenly: a step is for so many times the rows that are wanted. */
const ROWS_SPARE = 2;

type Order = ScanRequest['order'];

/** `also`: conditions beside those of the filter. */
export async function* scanFleet(
  fleet: Fleet,
  { filter, order, after, limit = Number.POSITIVE_INFINITY, columns: wanted }: ScanRequest,
  also: readonly Sql[] = [],
): AsyncGenerator<ScannedBlock, void> {
  const condition = eventCondition(filter);
  const times = timesOf(filter);
  if (!condition || !times || limit <= 0) return;
  const oldestNs = await fleet.oldestNs();
  const found = await scanRanges(fleet, filter, times, oldestNs);
  const blocks = answerBlocks(wanted);
  const steps = stepsOf(found, {
    order,
    fleet,
    wholeRows: isOfTimesAlone(filter) && also.length === 0 ? Math.min(limit, STATEMENT_ROWS_MAX) : undefined,
  });
  const isProbed = steps.areLong && isWorthProbing({ selected: blocks.selected, limit });
  let key = after && rowKeyOf(after);
  let left = limit;
  let statementRowsMax = STATEMENT_ROWS_MAX;
  if (key) steps.skipTo(key.timestampNs);
  for (let step = steps.next(); step; step = steps.next()) {
    const rowsMax = Math.min(left, statementRowsMax);
    const conditions = [...(key ? [following(key, order)] : []), ...found.more, ...also, condition];
    const asked = { times: step, conditions, order, rowsMax, selectFew: found.events === undefined };
    const withPinned = step.firstNs < oldestNs;
    if (isProbed) {
      const { range, hasMore } = await probe(fleet, asked, withPinned);
      if (!range) {
        steps.pass(true);
        yield blocks.empty();
        continue;
      }
      asked.times = range;
      if (hasMore) steps.cutTo(range);
    }
    const statement = eventStatement(fleet, { ...asked, selected: blocks.selected }, withPinned);
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
      if (rows.returned === 0) yield blocks.empty();
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
    if (rows.found + decoded.rowCount > rowsMax) throw unexpected('it has more rows');
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
  /** Whether they may have far more rows than are wanted. */
  readonly areLong: boolean;
  /** The step to read now; undefined behind the last one. */
  next(): TimeRange | undefined;
  /** Leaves out what is before this time in the order. */
  skipTo(timeNs: bigint): void;
  /** The step was read up to this time: the next one begins there, and is shorter. */
  stopAt(timeNs: bigint): void;
  /** The step that is read now ends where this range does. */
  cutTo(range: TimeRange): void;
  /** The step was read to its end. */
  pass(foundLittle: boolean): void;
}

interface StepOptions {
  order: Order;
  fleet: Fleet;
  /** The rows that are wanted, if all rows are. */
  wholeRows: number | undefined;
}

function stepsOf(
  { ranges: ascending, events }: ScanRanges,
  { order, fleet: { bucketNs }, wholeRows }: StepOptions,
): Steps {
  const isAscending = order === 'asc';
  const ranges = isAscending ? [...ascending] : ascending.toReversed();
  const areShort = events === undefined;
  let lengthNs = areShort ? STEP_NS_MAX : bucketNs;
  // A part of a bucket may do where all rows are wanted: the server need not sort the rest.
  if (events && wholeRows !== undefined) {
    const [{ firstNs, lastNs }] = ranges as [TimeRange];
    const enoughNs = ((lastNs - firstNs) * BigInt(ROWS_SPARE * wholeRows)) / events;
    if (enoughNs < lengthNs) lengthNs = enoughNs > STEP_NS_MIN ? enoughNs : STEP_NS_MIN;
  }
  let current: TimeRange | undefined;

  /** The first step of a range; it ends with a bucket. */
  function stepIn({ firstNs, lastNs }: TimeRange): TimeRange {
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
      current = ranges[0] && stepIn(ranges[0]);
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

/** The rows that come after one in the order. */
export function following({ timestampNs, recording, number }: RowKey, order: Order): Sql {
  const beyond = order === 'asc' ? sql`>` : sql`<`;
  return sql`(timestamp_ns ${beyond} ${timestampNs} OR (timestamp_ns = ${timestampNs} AND (recording ${beyond} ${recording} OR (recording = ${recording} AND number ${beyond} ${number}))))`;
}

/** An id that is none of an event is before all ids. */
function rowKeyOf({ timestamp_ns: timestampNs, event_id }: EventKey): RowKey {
  const id = parseEventId(event_id);
  return { timestampNs, recording: id ? BigInt(`0x${id.recordingId}`) : 0n, number: id?.number ?? 0n };
}
