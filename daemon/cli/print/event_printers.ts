/** Prints events in the format that the user chose. The daemon sends one event per line. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { parseJson } from '../../base/exact_json.ts';
import { formatCsvEvents, formatCsvHead } from '../../export/formats/csv_lines.ts';
import { EVENT_COLUMNS } from './event_table.ts';
import { print } from './standard_output.ts';
import { createTextTable } from './table.ts';

export const OUTPUTS = ['table', 'csv', 'ndjson', 'json'] as const;
export type EventOutput = (typeof OUTPUTS)[number];

/** Prints all lines, each of which is an event in JSON. */
export type Printer = (lines: AsyncIterable<string>) => Promise<void>;

/** Maximum number of rows that are aligned and printed together. */
const TABLE_ROWS = 100;

/** Maximum number of lines that are written at once. */
const LINES = 256;

export const PRINTERS: Readonly<Record<EventOutput, Printer>> = {
  async table(lines) {
    const table = createTextTable(EVENT_COLUMNS);
    for await (const some of groupLines(lines, TABLE_ROWS)) await print(table.lines(some.map(parseEvent)));
  },
  async csv(lines) {
    await print(formatCsvHead());
    for await (const some of groupLines(lines, LINES)) await print(formatCsvEvents(some.map(parseEvent)));
  },
  /** Prints the daemon's lines unchanged, so that no number is rounded. */
  async ndjson(lines) {
    for await (const some of groupLines(lines, LINES)) await print(`${some.join('\n')}\n`);
  },
  async json(lines) {
    let separator = '{"events":[\n';
    for await (const some of groupLines(lines, LINES)) {
      await print(separator + some.join(',\n'));
      separator = ',\n';
    }
    await print(separator.startsWith('{') ? '{"events":[]}\n' : '\n]}\n');
  },
};

function parseEvent(line: string): ApiEvent {
  return parseJson(line) as ApiEvent;
}

async function* groupLines(lines: AsyncIterable<string>, size: number): AsyncGenerator<string[], void> {
  let group: string[] = [];
  for await (const line of lines) {
    group.push(line);
    if (group.length < size) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}
