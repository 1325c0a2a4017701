/**
 * The recording's columns: the common columns, which every event has, and for each type the columns that only events of
 * that type have.
 */
import { commonFields } from './common.ts';
import type { Fields } from './define.ts';
import { EVENTS } from './index.ts';
import type { ColumnSource, Encoding, Storage } from './kinds.ts';

export interface Column {
  /**
   * Name that is unique among all event types: `duration_ns`, `sys_write.fd`. Recordings contain the name, so its
   * meaning never changes.
   */
  readonly name: string;
  readonly storage: Storage;
  readonly encoding: Encoding;
  readonly source: ColumnSource;
  /** Id of the only event type that has the column; 0 if every event has it. */
  readonly eventType: number;
  /** The record's field, and the index of this column among that field's columns. */
  readonly field: string;
  readonly slot: number;
}

function buildColumns(fields: Fields, eventType: number, prefix: string): Column[] {
  return Object.entries(fields).flatMap(([fieldName, { kind }]) =>
    kind.columns.map((spec, slot) => ({
      name: `${prefix}${kind.columnName ?? fieldName}${spec.suffix}`,
      storage: spec.storage,
      encoding: spec.encoding,
      source: kind.source,
      eventType,
      field: fieldName,
      slot,
    })),
  );
}

function selectSpecificFields(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !(name in commonFields)));
}

const eventTypeColumn: Column = {
  name: 'event_type',
  storage: 'u8',
  encoding: 'plain',
  source: 'value',
  eventType: 0,
  field: 'event_type',
  slot: 0,
};

export const COLUMNS: readonly Column[] = [
  eventTypeColumn,
  ...buildColumns(commonFields, 0, ''),
  ...EVENTS.flatMap((event) => buildColumns(selectSpecificFields(event.fields), event.id, `${event.name}.`)),
];
