/**
 * Describes an event as one row: first the columns that every event has, then the fields of each type. The columns are
 * derived from the schema.
 */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { commonFields } from '../../bpf/schema/common.ts';
import type { Fields } from '../../bpf/schema/define.ts';
import { getApiName } from '../../bpf/schema/define.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import type { Kind } from '../../bpf/schema/kinds.ts';
import { stringify } from '../base/exact_json.ts';

export type FlatValue = string | number | bigint | null;

/** The type of a column. An `unsigned` value may exceed the range of SQLite's integers, which are signed. */
export type FlatType = 'text' | 'integer' | 'unsigned';

export interface FlatColumn {
  readonly name: string;
  readonly type: FlatType;
  /** Returns null for an event that has no such field. */
  getValue(event: ApiEvent): FlatValue;
}

/** Columns that every event has. */
const COMMON_COLUMNS: readonly FlatColumn[] = [
  buildPlainColumn('event_id', 'text'),
  buildPlainColumn('event_type', 'text'),
  ...buildColumns(commonFields),
  buildPlainColumn('error', 'text'),
  buildPlainColumn('node', 'text'),
];

/** Maps the name of each event type to the columns of its own fields, without COMMON_COLUMNS. */
const OWN_COLUMNS: ReadonlyMap<string, readonly FlatColumn[]> = new Map(
  EVENTS.map(({ name, fields }) => [
    name,
    buildColumns(Object.fromEntries(Object.entries(fields).filter(([field]) => !(field in commonFields)))),
  ]),
);

/** All columns. Fields of several types with the same name share one column. */
export const EVENT_COLUMNS: readonly FlatColumn[] = [
  ...new Map([...COMMON_COLUMNS, ...[...OWN_COLUMNS.values()].flat()].map((column) => [column.name, column])).values(),
];

export function listTypeColumns(eventType: string): readonly FlatColumn[] {
  return [...COMMON_COLUMNS, ...OWN_COLUMNS.get(eventType)!];
}

function buildColumns(fields: Fields): FlatColumn[] {
  return Object.entries(fields).flatMap(([fieldName, field]) => flattenField(getApiName(fieldName, field), field.kind));
}

function flattenField(name: string, kind: Kind): FlatColumn[] {
  switch (kind.source) {
    case 'value':
    case 'boot_time':
      return kind.columns.map(({ storage }) =>
        buildPlainColumn(name, kind.labels ? 'text' : storage === 'u64' ? 'unsigned' : 'integer'),
      );
    case 'text':
      return [buildPlainColumn(name, 'text')];
    case 'process':
      return [buildPlainColumn('service_name', 'text')];
    case 'context':
      return [
        ...['transaction_id', 'trace_id', 'span_id'].map((id) => buildPlainColumn(id, 'text')),
        { name: 'attribution_source', type: 'text', getValue: ({ attribution }) => attribution.source },
        { name: 'attribution_quality', type: 'text', getValue: ({ attribution }) => attribution.quality },
      ];
    case 'file':
      return [buildPlainColumn(name, 'text'), buildPlainColumn('file_kind', 'text')];
    case 'queuer':
      return ['service_name', 'transaction_id'].map((part) => buildPartColumn(name, part));
    case 'origins':
      return [buildJsonColumn(name)];
  }
}

function buildPlainColumn(name: string, type: FlatType): FlatColumn {
  return { name, type, getValue: (event) => (getField(event, name) as FlatValue | undefined) ?? null };
}

/** Builds a column for one text property of an object field. The value is null if an event has no such object. */
function buildPartColumn(name: string, part: string): FlatColumn {
  const getValue = (event: ApiEvent) => (getField(event, name) as Record<string, string | null> | null)?.[part] || null;
  return { name: `${name}_${part}`, type: 'text', getValue };
}

function buildJsonColumn(name: string): FlatColumn {
  const getValue = (event: ApiEvent) => {
    const field = getField(event, name);
    return field === undefined ? null : stringify(field);
  };
  return { name, type: 'text', getValue };
}

function getField(event: ApiEvent, name: string): unknown {
  return (event as unknown as Record<string, unknown>)[name];
}
