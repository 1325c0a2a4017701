/** Events as comma-separated values: a header, then a line for each event. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { rowFormat, textRows } from '../../store/blocks/text_rows.ts';
import type { Encoder } from '../encoder.ts';
import { EVENT_COLUMNS } from '../flat_columns.ts';
import { csvLine, END_OF_LINE } from './csv_cell.ts';
import { layoutOfLines } from './csv_layout.ts';

const format = rowFormat(layoutOfLines);

export function csvEncoder(): Encoder {
  const { pieces, rest } = textRows(format, END_OF_LINE);
  return {
    head: csvHead,
    *pieces(scanned) {
      // The memory of a piece is used again, and an output may still have to write it.
      for (const piece of pieces(scanned)) yield Buffer.from(piece);
    },
    tail: rest,
  };
}

export function csvHead(): string {
  return csvLine(EVENT_COLUMNS.map(({ name }) => name));
}

/** The same lines from events. */
export function csvEvents(events: readonly ApiEvent[]): string {
  return events.map((event) => csvLine(EVENT_COLUMNS.map((column) => column.value(event)))).join('');
}
