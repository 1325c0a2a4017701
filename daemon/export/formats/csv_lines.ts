/**
 * Lines of comma-separated values as in RFC 4180, with quotes where they are needed, CRLF, and one header.
 *
 * Names come from recorded processes, and a spreadsheet treats a text that begins with = + - @ as a formula. Such a
 * text is prefixed with an apostrophe, and so is a text that begins with an apostrophe: removing one apostrophe
 * restores the text.
 */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { EVENT_COLUMNS, type FlatColumn } from '../flat_columns.ts';

const FORMULA = /^['=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** Null becomes an empty cell; an empty text becomes `""`. */
export function formatCsvCell(value: unknown): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return text === '' || QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns the cells, followed by the end of the line. */
export function formatCsvLine(values: readonly unknown[]): string {
  return `${values.map(formatCsvCell).join(',')}${END_OF_LINE}`;
}

export const END_OF_LINE = '\r\n';

/** A table in a spreadsheet has no function that makes a date of nanoseconds, so a line has the time as text, too. */
const TIMESTAMP: FlatColumn = { name: 'timestamp', type: 'text', getValue: ({ timestamp }) => timestamp ?? null };

export const CSV_COLUMNS: readonly FlatColumn[] = EVENT_COLUMNS.flatMap((column) =>
  column.name === 'timestamp_ns' ? [column, TIMESTAMP] : [column],
);

export function formatCsvHead(): string {
  return formatCsvLine(CSV_COLUMNS.map(({ name }) => name));
}

/** Formats events that a client has received; csv.ts writes the events of a recording. */
export function formatCsvEvents(events: readonly ApiEvent[]): string {
  return events.map((event) => formatCsvLine(CSV_COLUMNS.map((column) => column.getValue(event)))).join('');
}
