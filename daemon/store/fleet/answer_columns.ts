/** Which columns of the table `event` an answer needs for columns of a recording, and how those are made of them. */
import { EVENT_COLUMNS, type Part } from '../../../agent/clickhouse/tables/event_columns.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import type { Fields } from '../../../bpf/schema/define.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { Source } from '../../../bpf/schema/kinds.ts';

/** What of an origin a column has. */
export type OriginPart = 'service' | 'context' | 'bytes';

export type AnswerColumn = {
  column: Column;
  /** Names in the table: of the number, the word or the text; of path and kind; of the parts of a context. */
  from: readonly string[];
} & (
  | { as: 'number' | 'event_type' | 'name' | 'file' | 'context' }
  | { as: 'label'; numbers: ReadonlyMap<string, number> }
  | { as: 'origin'; slot: number; part: OriginPart }
);

/** Columns that every answer has. */
const ALWAYS = ['event_type', 'timestamp_ns'];
/** Columns of the table that name each row. */
export const KEY_COLUMNS = ['timestamp_ns', 'recording', 'number', 'node', 'event_type'] as const;
const CONTEXT_PARTS: readonly Part[] = ['transaction', 'trace', 'span'];

const ORIGIN_PARTS: Record<OriginPart, readonly Part[]> = {
  service: ['origin_services'],
  context: ['origin_transactions', 'origin_traces'],
  bytes: ['origin_bytes'],
};

/** `wanted` are names of columns of a recording; all if omitted. */
export function answerColumns(wanted?: readonly string[]): AnswerColumn[] {
  const names = wanted && new Set([...ALWAYS, ...wanted]);
  return COLUMNS.filter(({ name }) => !names || names.has(name)).map(answerColumn);
}

/** Names of the columns of the table that a statement must select. */
export function selectedColumns(columns: readonly AnswerColumn[]): string[] {
  return [...new Set([...KEY_COLUMNS, ...columns.flatMap(({ from }) => from)])];
}

function answerColumn(column: Column): AnswerColumn {
  const namesOf = (parts: readonly Part[]) =>
    parts.map(
      (wanted) => EVENT_COLUMNS.find(({ part, source }) => part === wanted && source.name === column.name)!.name,
    );
  const simple = (as: 'name' | 'event_type' | 'number', part: Part): AnswerColumn => ({
    column,
    as,
    from: namesOf([part]),
  });
  const source: Source = column.source;
  switch (source) {
    case 'text':
      return simple('name', 'text');
    case 'process':
      return simple('name', 'service');
    case 'file':
      return { column, as: 'file', from: namesOf(['path', 'file_kind']) };
    case 'context':
      return column.slot > 0 ? simple('number', 'number') : { column, as: 'context', from: namesOf(CONTEXT_PARTS) };
    case 'queuer':
      if (column.slot === 0) return simple('name', 'queuer_service');
      return { column, as: 'context', from: namesOf(['queuer_transaction', 'queuer_trace']) };
    case 'origins':
      return originColumn(column);
    case 'value':
    case 'boot_time': {
      if (column.name === 'event_type') return simple('event_type', 'event_type');
      const labels = labelsOf(column);
      if (!labels) return simple('number', 'number');
      const numbers = new Map([...labels].map(([number, label]) => [label, number] as const));
      return { column, as: 'label', from: namesOf(['label']), numbers };
    }
  }
}

function originColumn(column: Column): AnswerColumn {
  const [, slot, part] = /_(\d+)_(service|context|bytes)$/.exec(column.name) as unknown as [string, string, OriginPart];
  // All types of event with origins share the lists.
  const from = ORIGIN_PARTS[part].map((wanted) => EVENT_COLUMNS.find((one) => one.part === wanted)!.name);
  return { column, as: 'origin', from, slot: Number(slot), part };
}

/** The words of a column of labels, by their numbers; undefined for other columns. */
export function labelsOf({ eventType, field }: Column): ReadonlyMap<number, string> | undefined {
  const fields: Fields = EVENTS.find(({ id }) => id === eventType)?.fields ?? {};
  return fields[field]?.kind.labels;
}
