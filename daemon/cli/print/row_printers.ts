/** Prints rows of a query in the format that the user chose. */

import { stringify } from '../../base/exact_json.ts';
import { csvLine } from '../../export/formats/csv_lines.ts';
import type { SqlValue } from '../../export/sql/sql_query.ts';
import { newTable } from './table.ts';

export const ROW_FORMATS = ['table', 'json', 'csv', 'ndjson'] as const;
export type RowFormat = (typeof ROW_FORMATS)[number];

type Row = readonly SqlValue[];

export interface RowPrinter {
  head(): string;
  rows(rows: readonly Row[]): string;
  tail(): string;
}

export function rowPrinter(format: RowFormat, columns: readonly string[]): RowPrinter {
  switch (format) {
    case 'table':
      return tablePrinter(columns);
    case 'csv':
      return {
        head: () => csvLine(columns),
        rows: (rows) => rows.map((row) => csvLine(row.map(printed))).join(''),
        tail: () => '',
      };
    case 'ndjson':
      return {
        head: () => '',
        rows: (rows) => rows.map((row) => `${buildRowJson(columns, row)}\n`).join(''),
        tail: () => '',
      };
    case 'json':
      return jsonPrinter(columns);
  }
}

function tablePrinter(columns: readonly string[]): RowPrinter {
  const table = newTable<Row>(
    columns.map((heading, i) => ({ heading, cell: (row) => String(printed(row[i]!) ?? '') })),
  );
  // Without any row, the headings are printed at the end.
  return { head: () => '', rows: (rows) => table.lines(rows), tail: () => table.lines([]) };
}

function jsonPrinter(columns: readonly string[]): RowPrinter {
  let separator = '\n';
  return {
    head: () => '[',
    rows(rows) {
      const text = separator + rows.map((row) => buildRowJson(columns, row)).join(',\n');
      separator = ',\n';
      return text;
    },
    tail: () => '\n]\n',
  };
}

/** Written member by member: a query may give two columns the same name, and both must appear. */
function buildRowJson(columns: readonly string[], row: Row): string {
  return `{${columns.map((name, i) => `${JSON.stringify(name)}:${stringify(inJson(row[i]!))}`).join(',')}}`;
}

/** Infinities become text, because JSON has none. */
function inJson(value: SqlValue): string | number | bigint | null {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : printed(value);
}

/** Formats bytes as SQLite does. */
function printed(value: SqlValue): string | number | bigint | null {
  return Buffer.isBuffer(value) ? `x'${value.toString('hex')}'` : value;
}
