/** A recording's events as comma-separated values: the same lines as in csv_events.ts, without making events. */
import { rowFormat, textRows } from '../../store/blocks/text_rows.ts';
import type { Encoder } from '../encoder.ts';
import { END_OF_LINE } from './csv_cell.ts';
import { csvHead } from './csv_events.ts';
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
