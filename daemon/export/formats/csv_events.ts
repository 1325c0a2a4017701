/** Events as lines of comma-separated values, for clients that have the events themselves. */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { EVENT_COLUMNS } from '../flat_columns.ts';
import { csvLine } from './csv_cell.ts';

export function csvHead(): string {
  return csvLine(EVENT_COLUMNS.map(({ name }) => name));
}

export function csvEvents(events: readonly ApiEvent[]): string {
  return events.map((event) => csvLine(EVENT_COLUMNS.map((column) => column.value(event)))).join('');
}
