/**
 * Columns of the table `event`, derived from the columns of a recording. New event types and columns are added
 * automatically: numbers are copied, and ids are replaced by the values that they refer to.
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import type { Fields } from '../../../bpf/schema/define.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { Storage } from '../../../bpf/schema/kinds.ts';
import { type IntegerName, type NativeType, parseType } from '../native/types.ts';

/** The part of a context, file, process or text that a column stores. The column's source refers to that object. */
export type SourcePart =
  | 'number'
  | 'event_type'
  | 'label'
  | 'text'
  | 'service'
  | 'path'
  | 'file_kind'
  | 'transaction'
  | 'trace'
  | 'span'
  | 'queuer_service'
  | 'queuer_transaction'
  | 'queuer_trace'
  | 'origin_services'
  | 'origin_transactions'
  | 'origin_traces'
  | 'origin_bytes';

export interface EventColumn {
  readonly name: string;
  readonly type: NativeType;
  readonly part: SourcePart;
  /**
   * The column of the recording. For `origin_*`, it is the column of the first slot. Columns of one event type are 0 or
   * '' for events of other types.
   */
  readonly source: Column;
}

const INTEGER_OF: Record<Storage, IntegerName> = {
  u8: 'UInt8',
  u16: 'UInt16',
  u32: 'UInt32',
  i32: 'Int32',
  u64: 'UInt64',
  i64: 'Int64',
};

const WORD = parseType('LowCardinality(String)');
const TEXT = parseType('String');

/** Converts a column name for SQL, where names have no dots. */
export function toSqlName(name: string): string {
  return name.replaceAll('.', '_');
}

function isLabel({ eventType, field }: Column): boolean {
  const event = EVENTS.find(({ id }) => id === eventType);
  const fields: Fields = event?.fields ?? {};
  return fields[field]?.kind.labels !== undefined;
}

function buildSourceColumns(source: Column): EventColumn[] {
  const name = toSqlName(source.name);
  const column = (part: SourcePart, type: NativeType, own = name): EventColumn => ({ name: own, type, part, source });
  const number = column('number', { kind: 'integer', integer: INTEGER_OF[source.storage] });
  switch (source.source) {
    case 'value':
      if (source.name === 'event_type') return [column('event_type', WORD)];
      return [isLabel(source) ? column('label', WORD) : number];
    case 'boot_time':
      return [number];
    case 'text':
      return [column('text', WORD)];
    case 'process':
      return [column('service', WORD)];
    case 'file':
      return [column('path', TEXT), column('file_kind', WORD, `${name}_kind`)];
    case 'context':
      if (source.slot > 0) return [number];
      return [
        column('transaction', TEXT, 'transaction_id'),
        column('trace', parseType('FixedString(16)'), 'trace_id'),
        column('span', parseType('FixedString(8)'), 'span_id'),
      ];
    case 'queuer':
      // Queuers and origins are stored without the span.
      if (source.slot === 0) return [column('queuer_service', WORD, 'queued_by_service')];
      return [
        column('queuer_transaction', TEXT, 'queued_by_transaction_id'),
        column('queuer_trace', parseType('FixedString(16)'), 'queued_by_trace_id'),
      ];
    case 'origins':
      // An event has one type, so all event types with origins share these list columns.
      if (source.slot > 0) return [];
      return [
        column('origin_services', parseType('Array(String)'), 'origin_services'),
        column('origin_transactions', parseType('Array(String)'), 'origin_transactions'),
        column('origin_traces', parseType('Array(FixedString(16))'), 'origin_traces'),
        column('origin_bytes', parseType('Array(UInt64)'), 'origin_bytes'),
      ];
  }
}

/** Builds the columns of the table. If several columns have the same name, the first one is used. */
export function buildEventColumns(columns: readonly Column[]): readonly EventColumn[] {
  const byName = new Map<string, EventColumn>();
  for (const column of columns.flatMap(buildSourceColumns))
    if (!byName.has(column.name)) byName.set(column.name, column);
  return [...byName.values()];
}

export const EVENT_COLUMNS = buildEventColumns(COLUMNS);
