/** The table of a picture's events with exact values. A row is built when it scrolls into view. */
import {
  collectOrigins,
  type EventColumns,
  type ExactField,
  getErrorName,
  getEventId,
  getExactValue,
  getOwner,
  getRecording,
  getThread,
  getWhat,
  startNs,
  typeName,
} from '../../model/columns/event_columns.ts';
import type { LanesModel } from '../../model/lanes/model.ts';
import { OTHER, OWN, WRITTEN_BACK } from '../../model/lanes/shares.ts';
import { formatExactBytes } from '../../model/wording/amounts.ts';
import { formatExactDuration, formatExactOffset, groupDigits } from '../../model/wording/exact_times.ts';
import { formatWallClock } from '../numbers/wall_clock.ts';

/**
 * Maximum number of rows on a page: browsers limit the height of an element, so a table of millions of rows is divided
 * into pages.
 */
export const PAGE_ROWS = 10_000;

/** Headings in the order of the cells. */
export const HEADINGS = [
  ...['Start', 'Time (UTC)', 'Duration', 'Event', 'Call', 'File or device', 'Result', 'Bytes', 'Queue', 'Node'],
  ...['Service', 'Command', 'pid', 'tid', 'Transaction', 'Owner known by', 'Origins', 'Event id'],
] as const;

export interface EventTable {
  rowCount: number;
  pageCount: number;
  /** Returns the row of the event that a line of the table shows. */
  getRow(line: number): number;
  /** Returns the line of an event; -1 if the event is not in the table. */
  findLine(row: number): number;
  /** Returns the lines of a page; `to` is the line after the last one. */
  computePageLines(page: number): [from: number, to: number];
  /** Returns the texts of a line, one for each heading; a text is empty if the event has no such value. */
  formatLine(line: number): string[];
}

/**
 * Creates a table. `rows` selects and orders the events; without `rows`, the table has all events. `originNs` is the
 * time from which starts are counted.
 */
export function createEventTable(columns: EventColumns, originNs = 0n, rows?: Uint32Array): EventTable {
  const rowCount = rows ? rows.length : columns.count;
  const getRow = (line: number) => (rows ? rows[line]! : line);
  return {
    rowCount,
    pageCount: Math.ceil(rowCount / PAGE_ROWS),
    getRow,
    findLine: (row) => (rows ? rows.indexOf(row) : row < rowCount ? row : -1),
    computePageLines: (page) => [page * PAGE_ROWS, Math.min((page + 1) * PAGE_ROWS, rowCount)],
    formatLine: (line) => formatCells(columns, getRow(line), originNs),
  };
}

/** Orders the events of a picture: own events first, then write-back, then requests of others. */
export function orderOwnFirst(shares: LanesModel['shares']): Uint32Array {
  const rows = new Uint32Array(shares.length);
  let to = 0;
  for (const share of [OWN, WRITTEN_BACK, OTHER])
    for (let row = 0; row < shares.length; row++) if (shares[row] === share) rows[to++] = row;
  return rows;
}

/**
 * Selects the longest events, and returns them in order of start; if events are equally long, earlier ones are
 * preferred.
 */
export function selectLongestRows(
  { count, duration }: Pick<EventColumns, 'count' | 'duration'>,
  most: number,
): Uint32Array {
  const shortest = count <= most ? 0 : duration.toSorted().at(-most)!;
  const rows = new Uint32Array(Math.min(most, count));
  let longer = 0;
  for (let row = 0; row < count; row++) if (duration[row]! > shortest) longer++;
  for (let row = 0, left = rows.length - longer, to = 0; row < count; row++)
    if (duration[row]! > shortest || (duration[row] === shortest && left-- > 0)) rows[to++] = row;
  return rows;
}

function formatCells(columns: EventColumns, row: number, originNs: bigint): string[] {
  const { pid, tid, comm, service } = getThread(columns, row);
  const { transactionId, source, quality } = getOwner(columns, row);
  const { target } = getWhat(columns, row);
  const formatExactField = (field: ExactField, shown: (value: bigint) => string) => {
    const value = getExactValue(columns, field, row);
    return value === null ? '' : shown(value);
  };
  return [
    formatExactField('start', (offset) => formatExactOffset(offset - originNs)),
    formatWallClock(startNs(columns, row)),
    formatExactField('duration', formatExactDuration),
    typeName(columns, row),
    getWhat(columns, row).operation,
    target ?? '',
    getErrorName(columns, row) ?? formatExactField('result', groupDigits),
    formatExactField('bytes', formatExactBytes),
    formatExactField('queue', formatExactDuration),
    getRecording(columns, row).node,
    ...[service, comm, String(pid), String(tid)],
    transactionId ?? '',
    source === 'none' ? '' : `${source}, ${quality}`,
    formatOrigins(columns, row),
    getEventId(columns, row),
  ];
}

/** Formats the origins as `shop order-1 4096 B; backup 1 024 B`. */
function formatOrigins(columns: EventColumns, row: number): string {
  return collectOrigins(columns, row)
    .map(({ service, transactionId, bytes }) =>
      [service, transactionId ?? [], `${groupDigits(bytes)} B`].flat().join(' '),
    )
    .join('; ');
}
