/** Formats a table with headings, whose rows are printed when they arrive. */
import { escapeControls } from '../../../agent/output/printable.ts';

export interface TextColumn<Row> {
  heading: string;
  cell: (row: Row) => string;
  align?: 'right';
}

export interface AlignedTable<Row> {
  /** Returns the text for these rows. A cell wider than its column widens the column for these and all later rows. */
  lines(rows: readonly Row[]): string;
}

export function createTextTable<Row>(columns: readonly TextColumn<Row>[]): AlignedTable<Row> {
  const widths = columns.map(({ heading }) => heading.length);
  let headed = false;

  function formatLine(cells: readonly string[]): string {
    const padded = cells.map((cell, i) =>
      columns[i]!.align === 'right' ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!),
    );
    return `${padded.join('  ').trimEnd()}\n`;
  }

  return {
    lines(rows) {
      const cells = rows.map((row) => columns.map(({ cell }) => escapeControls(cell(row))));
      widths.forEach((width, i) => {
        widths[i] = Math.max(width, ...cells.map((row) => row[i]!.length));
      });
      const heading = headed ? '' : formatLine(columns.map((column) => column.heading));
      headed = true;
      return heading + cells.map(formatLine).join('');
    },
  };
}
