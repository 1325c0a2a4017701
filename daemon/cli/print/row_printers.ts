/** Prints rows of a query in the format that the user chose. */

import { stringify } from '../../base/exact_json.ts';
import { formatCsvLine } from '../../export/formats/csv_lines.ts';
import type { SqlValue } from '../../export/sql/sql_query.ts';
import { createTextTable } from './table.ts';

export const ROW_FORMATS = ['table', 'json', 'csv', 'ndjson'] as const;
export type RowFormat = (typeof ROW_FORMATS)[number];

type SqlRow = readonly SqlValue[];

export interface RowPrinter {
  formatHead(): string;
  formatRows(rows: readonly SqlRow[]): string;
  formatTail(): string;
}

export function createRowPrinter(format: RowFormat, columns: readonly string[]): RowPrinter {
  switch (format) {
    case 'table':
      return createTablePrinter(columns);
    case 'csv':
      return {
        formatHead: () => formatCsvLine(columns),
        formatRows: (rows) => rows.map((row) => formatCsvLine(row.map(toPrintedValue))).join(''),
        formatTail: () => '',
      };
    case 'ndjson':
      return {
        formatHead: () => '',
        formatRows: (rows) => rows.map((row) => `${buildRowJson(columns, row)}\n`).join(''),
        formatTail: () => '',
      };
    case 'json':
      return createJsonPrinter(columns);
  }
}

function createTablePrinter(columns: readonly string[]): RowPrinter {
  const table = createTextTable<SqlRow>(
    columns.map((heading, i) => ({ heading, cell: (row) => String(toPrintedValue(row[i]!) ?? '') })),
  );
  // For a table without rows, this prints the headings.
  return { formatHead: () => '', formatRows: (rows) => table.lines(rows), formatTail: () => table.lines([]) };
}

function createJsonPrinter(columns: readonly string[]): RowPrinter {
  let separator = '\n';
  return {
    formatHead: () => '[',
    formatRows(rows) {
      const text = separator + rows.map((row) => buildRowJson(columns, row)).join(',\n');
      separator = ',\n';
      return text;
    },
    formatTail: () => '\n]\n',
  };
}

/**
 * Formats a row as a JSON object. A query may give two columns the same name, so the text is written member by member
 * to keep both.
 */
function buildRowJson(columns: readonly string[], row: SqlRow): string {
  return `{${columns.map((name, i) => `${JSON.stringify(name)}:${stringify(toJsonValue(row[i]!))}`).join(',')}}`;
}

/** Converts a value for JSON, which has no infinities: they become texts. */
function toJsonValue(value: SqlValue): string | number | bigint | null {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : toPrintedValue(value);
}

/** Formats bytes as an SQLite literal: `x'00ff'`. */
function toPrintedValue(value: SqlValue): string | number | bigint | null {
  return Buffer.isBuffer(value) ? `x'${value.toString('hex')}'` : value;
}
