/**
 * Comma-separated values as in RFC 4180: one header, CRLF, quotes where they are needed.
 *
 * Names come from recorded processes, and a spreadsheet takes a text that begins with = + - @ for a formula. Such a
 * text gets an apostrophe in front, and so does one that begins with an apostrophe: removing one restores the text.
 */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { eventPieces } from '../../store/blocks/event.ts';
import type { Encoder } from '../encoder.ts';
import { EVENT_COLUMNS } from '../flat_columns.ts';

const FORMULA = /^['=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** Null becomes an empty cell; an empty text becomes `""`. */
export function csvLine(values: readonly unknown[]): string {
  return `${values.map(cell).join(',')}\r\n`;
}

function cell(value: unknown): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return text === '' || QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvEncoder(): Encoder {
  return {
    head: csvHead,
    *pieces(scanned) {
      for (const events of eventPieces(scanned)) yield csvEvents(events);
    },
    tail: () => '',
  };
}

export function csvHead(): string {
  return csvLine(EVENT_COLUMNS.map(({ name }) => name));
}

export function csvEvents(events: readonly ApiEvent[]): string {
  return events.map(eventLine).join('');
}

function eventLine(event: ApiEvent): string {
  return csvLine(EVENT_COLUMNS.map((column) => column.value(event)));
}
