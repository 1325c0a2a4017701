/**
 * Reads events in the order in which they were recorded, for readers that follow the writer. Numbers are never reused,
 * so a single number describes what such a reader has read: all events with smaller numbers.
 */
import type Database from 'better-sqlite3';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { type Loss, type LossParts, listScopes, parseReason, parseScope, parseSums } from '../format/losses.ts';
import { computeRestartNumber, countGivenNumbers } from '../format/numbers.ts';
import { toStored } from '../format/schema.ts';
import { gather } from './assemble_block.ts';
import { type EventFilter, resolveFilter } from './event_filter.ts';
import type { Lookup } from './lookup.ts';
import { createSegmentMatcher, findMatchingRows } from './match.ts';
import { buildReadableBlock, type ScanSource, type SegmentRun } from './scan.ts';
import { type Segment, UnreadableSegment } from './segment.ts';
import type { SegmentMeta } from './segment_index.ts';

/** Maximum number of segments opened for one block. At this limit, the block is returned even if it is empty. */
const OPENED_A_BLOCK_MAX = 16;

const LAST_LOSS = 'SELECT coalesce(max(loss_id), 0) FROM loss';

/** SQL for the number of stored events with numbers in [from, end). */
const STORED = `
SELECT coalesce(sum(
  min(coalesce(end_number, first_number + event_count), :end) - max(first_number, :from)
), 0)
FROM segment
WHERE first_number >= coalesce((SELECT max(first_number) FROM segment WHERE first_number <= :from), 0)
  AND first_number < :end AND coalesce(end_number, first_number + event_count) > :from`;

/** SQL for the number after the last event of the last segment that begins before a number. */
const STORED_END = `
SELECT coalesce(end_number, first_number + event_count) FROM segment
WHERE first_number < ? ORDER BY first_number DESC LIMIT 1`;

/** SQL for the number after the last removed event with a number in [from, end). */
const REMOVED_END = `
SELECT max(first_number)
FROM (
  SELECT first_number, lag(end_number, 1, :from) OVER (ORDER BY first_number) AS before
  FROM (
    SELECT first_number, coalesce(end_number, first_number + event_count) AS end_number
    FROM segment
    WHERE first_number >= coalesce((SELECT max(first_number) FROM segment WHERE first_number <= :from), 0)
  )
  WHERE end_number > :from
  UNION ALL
  SELECT :end, coalesce(max(coalesce(end_number, first_number + event_count)), 0) FROM segment
)
WHERE first_number > before AND first_number <= :end`;

const LOSSES_AFTER = `
SELECT loss_id, from_ns, to_ns, cause, event_type, count, scope, sums
FROM loss
WHERE loss_id > :after
ORDER BY loss_id`;

const SCOPED_LOSSES_AFTER = LOSSES_AFTER.replace('ORDER BY', "AND +scope IN ('', :scope)\nORDER BY");

const LAST_REMOVED_NS = "SELECT to_ns FROM loss WHERE cause = 'retention'";

export interface ArrivalRequest {
  filter: EventFilter;
  /** The range of event numbers, [from, end). */
  from: number;
  end: number;
  rowsMax: number;
}

export interface ArrivedRows {
  block: NumberedBlock;
  /** Number from which the next request continues; `end` if the whole range was read. */
  next: number;
}

export interface NotedLoss extends Loss {
  lossId: number;
}

export interface ArrivalReader {
  /** Returns the number after the last event, and the id of the last loss. */
  extent(): { end: number; lossId: number };
  /** Returns a block of the events that match; undefined if no event of this recording can match the filter. */
  arrivals(request: ArrivalRequest): ArrivedRows | undefined;
  /**
   * Counts the events with numbers in [from, end) that retention removed. `next` is the number after the last such
   * event. `toNs` is the latest start of all events that retention has removed from the recording, 0n if there are
   * none.
   */
  countRemoved(from: number, end: number): { count: number; next: number; toNs: bigint };
  /** Counts the events with numbers in [from, end) that the recording has. */
  countStored(from: number, end: number): number;
  /** Returns the losses with larger ids, without parts unless `parts` selects some. */
  listLossesAfter(lossId: number, parts: LossParts | undefined): NotedLoss[];
}

type LossRow = [bigint, bigint, bigint, Loss['cause'], Loss['eventType'], bigint, unknown, unknown];

/** Opens the reader of arrivals. `node` is the node that made the recording. */
export function openArrivals(
  database: Database.Database,
  source: ScanSource,
  lookup: Lookup,
  node: string,
): ArrivalReader {
  const lastLoss = database.prepare<[], number>(LAST_LOSS).pluck();
  const stored = database.prepare<[object], number>(STORED).pluck();
  const storedEnd = database.prepare<[number], number>(STORED_END).pluck();
  const removedEnd = database.prepare<[object], number | null>(REMOVED_END).pluck();
  const losses = database.prepare<[object], LossRow>(LOSSES_AFTER).raw().safeIntegers();
  const scopedLosses = database.prepare<[object], LossRow>(SCOPED_LOSSES_AFTER).raw().safeIntegers();
  const lastRemovedNs = database.prepare<[], bigint>(LAST_REMOVED_NS).pluck().safeIntegers();

  function open(meta: SegmentMeta): Segment | undefined {
    try {
      return source.open(meta);
    } catch (error) {
      leaveOut(error);
      return undefined;
    }
  }

  function selectRowsFrom(segment: Segment, filter: ReturnType<typeof resolveFilter> & {}, from: number, end: number) {
    const rows = findMatchingRows(segment, filter, end);
    const first = rows.findIndex((row) => segment.readEventNumber(row) >= from);
    return first < 0 ? rows.subarray(0, 0) : rows.subarray(first);
  }

  function read({ filter, from, end, rowsMax }: ArrivalRequest): ArrivedRows | undefined {
    const resolved = resolveFilter(filter, lookup, node);
    if (!resolved) return undefined;
    const bounds = {
      firstNs: toStored(resolved.firstNs),
      lastNs: toStored(resolved.lastNs),
      typeMask: resolved.typeMask,
      minDurationNs: toStored(resolved.minDurationNs),
    };
    const isOfInterest = createSegmentMatcher(resolved, source.columnIds());
    const runs: SegmentRun[] = [];
    let left = rowsMax;
    let next = end;
    const metas = source.index.listArrived(from, end, bounds, OPENED_A_BLOCK_MAX);
    for (const meta of metas) {
      if (!isOfInterest(meta)) continue;
      const segment = open(meta);
      const rows = segment ? selectRowsFrom(segment, resolved, from, end).subarray(0, left) : undefined;
      if (segment && rows && rows.length > 0) runs.push({ segment, rows });
      left -= rows?.length ?? 0;
      if (left > 0) continue;
      next = segment!.readEventNumber(rows!.at(-1)!) + 1;
      break;
    }
    if (left > 0 && metas.length === OPENED_A_BLOCK_MAX) next = Math.min(end, metas.at(-1)!.endNumber);
    const block = buildReadableBlock(runs, {
      gather: (some) => gather(some, COLUMNS, () => {}),
      onBlock: source.onBlock,
      leaveOut,
    });
    return { block, next };
  }

  function leaveOut(error: unknown): SegmentMeta {
    if (!(error instanceof UnreadableSegment)) throw error;
    if (error.damage) source.onDamaged(error.meta);
    return error.meta;
  }

  return {
    extent: () => ({ end: source.index.ends().end, lossId: lastLoss.get()! }),
    arrivals: (request) => source.runInTransaction(() => read(request)),
    countRemoved(from, until) {
      // After a power loss, the writer skips numbers (see numbers.ts), and lost events may have had some of them. So
      // the numbers after the last event that was stored before the loss are not counted.
      const isBeforeRestart = computeRestartNumber(until) < source.index.ends().end;
      const end = isBeforeRestart ? Math.max(from, Math.min(until, storedEnd.get(until) ?? from)) : until;
      const given = countGivenNumbers(from, end);
      const count = given > 0 ? given - stored.get({ from: end - given, end })! : 0;
      const next = count > 0 ? (removedEnd.get({ from, end }) ?? end) : from;
      return { count, next, toNs: lastRemovedNs.get() ?? 0n };
    },
    countStored: (from, end) => (end > from ? stored.get({ from, end })! : 0),
    listLossesAfter(after, parts) {
      const rows = parts === 'all' ? losses.all({ after }) : scopedLosses.all({ after, scope: listScopes(parts)[1] });
      return rows.map(([id, fromNs, toNs, cause, eventType, count, scope, sums]) => ({
        lossId: Number(id),
        fromNs,
        toNs,
        ...parseReason(cause),
        ...parseScope(scope),
        ...parseSums(sums),
        eventType,
        count: Number(count),
      }));
    },
  };
}
