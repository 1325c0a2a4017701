/**
 * Returns the value of a column that is not stored, because the file is older than the column or the value was unknown.
 */
import { type ColumnArray, createColumn } from '../../../bpf/schema/block.ts';
import type { Column } from '../../../bpf/schema/columns.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import type { Fields } from '../../../bpf/schema/define.ts';
import { findEventDefinition } from '../../../bpf/schema/index.ts';

export function getAbsentValue(column: Column): bigint {
  const fields: Fields | undefined =
    column.eventType === 0 ? commonFields : findEventDefinition(column.eventType)?.fields;
  return fields?.[column.field]?.kind.unknown ?? 0n;
}

export function createAbsentValues(column: Column, length: number, make = createColumn): ColumnArray {
  const values = make(column.name, column.storage, length);
  const value = getAbsentValue(column);
  // `createColumn` returns zeroed memory.
  if (value === 0n && make === createColumn) return values;
  if (values instanceof BigUint64Array || values instanceof BigInt64Array) values.fill(value);
  else values.fill(Number(value));
  return values;
}
