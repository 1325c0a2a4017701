/**
 * Formats comma-separated values as in RFC 4180: quotes where necessary, CRLF line ends, and one header line.
 *
 * Names come from recorded processes and are untrusted, and a spreadsheet may treat a text that begins with = + - @, a
 * tab or a carriage return as a formula. Therefore, such a text is prefixed with an apostrophe. A text that begins with
 * an apostrophe gets another one, so that removing one apostrophe always restores the text.
 */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { EVENT_COLUMNS, type FlatColumn } from '../flat_columns.ts';

const FORMULA = /^['=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** Formats a cell. Null becomes an empty cell, and an empty text becomes `""`. */
export function formatCsvCell(value: unknown): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return text === '' || QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns a line with one cell for each value, including the end of the line. */
export function formatCsvLine(values: readonly unknown[]): string {
  return `${values.map(formatCsvCell).join(',')}${END_OF_LINE}`;
}

export const END_OF_LINE = '\r\n';

/** The start of an event as text, because spreadsheets have no function that converts nanoseconds to a date. */
const TIMESTAMP: FlatColumn = { name: 'timestamp', type: 'text', getValue: ({ timestamp }) => timestamp ?? null };

export const CSV_COLUMNS: readonly FlatColumn[] = EVENT_COLUMNS.flatMap((column) =>
  column.name === 'timestamp_ns' ? [column, TIMESTAMP] : [column],
);

export function formatCsvHead(): string {
  return formatCsvLine(CSV_COLUMNS.map(({ name }) => name));
}

/** Formats events that a client received from a daemon; csv.ts formats the events of a recording. */
export function formatCsvEvents(events: readonly ApiEvent[]): string {
  return events.map((event) => formatCsvLine(CSV_COLUMNS.map((column) => column.getValue(event)))).join('');
}
