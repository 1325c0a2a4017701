/** An event as one row: the columns that every event has, then the fields of each type, derived from the schema. */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { commonFields } from '../../bpf/schema/common.ts';
import type { Fields } from '../../bpf/schema/define.ts';
import { apiName } from '../../bpf/schema/define.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import type { Kind } from '../../bpf/schema/kinds.ts';
import { stringify } from '../base/exact_json.ts';

export type FlatValue = string | number | bigint | null;

/** An `unsigned` value may be larger than SQLite's integers hold. */
export type FlatType = 'text' | 'integer' | 'unsigned';

export interface FlatColumn {
  readonly name: string;
  readonly type: FlatType;
  /** Null for an event that has no such field. */
  value(event: ApiEvent): FlatValue;
}

/** Columns that every event has. */
const COMMON_COLUMNS: readonly FlatColumn[] = [
  plain('event_id', 'text'),
  plain('event_type', 'text'),
  ...buildColumns(commonFields),
  plain('error', 'text'),
  plain('node', 'text'),
];

/** Further columns of each event type, by the type's name. */
const OWN_COLUMNS: ReadonlyMap<string, readonly FlatColumn[]> = new Map(
  EVENTS.map(({ name, fields }) => [
    name,
    buildColumns(Object.fromEntries(Object.entries(fields).filter(([field]) => !(field in commonFields)))),
  ]),
);

/** Fields of the same name and kind in several types are one column. */
export const EVENT_COLUMNS: readonly FlatColumn[] = [
  ...new Map([...COMMON_COLUMNS, ...[...OWN_COLUMNS.values()].flat()].map((column) => [column.name, column])).values(),
];

export function columnsOfType(eventType: string): readonly FlatColumn[] {
  return [...COMMON_COLUMNS, ...OWN_COLUMNS.get(eventType)!];
}

function buildColumns(fields: Fields): FlatColumn[] {
  return Object.entries(fields).flatMap(([fieldName, field]) => flattened(apiName(fieldName, field), field.kind));
}

function flattened(name: string, kind: Kind): FlatColumn[] {
  switch (kind.source) {
    case 'value':
    case 'boot_time':
      return kind.columns.map(({ storage }) =>
        plain(name, kind.labels ? 'text' : storage === 'u64' ? 'unsigned' : 'integer'),
      );
    case 'text':
      return [plain(name, 'text')];
    case 'process':
      return [plain('service_name', 'text')];
    case 'context':
      return [
        ...['transaction_id', 'trace_id', 'span_id'].map((id) => plain(id, 'text')),
        { name: 'attribution_source', type: 'text', value: ({ attribution }) => attribution.source },
        { name: 'attribution_quality', type: 'text', value: ({ attribution }) => attribution.quality },
      ];
    case 'file':
      return [plain(name, 'text'), plain('file_kind', 'text')];
    case 'queuer':
      return ['service_name', 'transaction_id'].map((part) => buildPartColumn(name, part));
    case 'origins':
      return [asJson(name)];
  }
}

function plain(name: string, type: FlatType): FlatColumn {
  return { name, type, value: (event) => (getField(event, name) as FlatValue | undefined) ?? null };
}

/** A text of an object that an event may lack. */
function buildPartColumn(name: string, part: string): FlatColumn {
  const value = (event: ApiEvent) => (getField(event, name) as Record<string, string | null> | null)?.[part] || null;
  return { name: `${name}_${part}`, type: 'text', value };
}

function asJson(name: string): FlatColumn {
  const value = (event: ApiEvent) => {
    const field = getField(event, name);
    return field === undefined ? null : stringify(field);
  };
  return { name, type: 'text', value };
}

function getField(event: ApiEvent, name: string): unknown {
  return (event as unknown as Record<string, unknown>)[name];
}
