/** Cuts a range of adjacent rows out of a block, as a block that shares its arrays. */
import { type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { column } from './column.ts';
import { RECORDING_COLUMN } from './scanned_block.ts';

/** Returns rows `[from, to)`. */
export type RowCutter = (from: number, to: number) => NumberedBlock;

export function rowCutter(block: NumberedBlock): RowCutter {
  const types = column(block, 'event_type');
  const given = COLUMNS.filter(({ name }) => block.columns.has(name));
  let places: Uint32Array | undefined;
  return (from, to) => {
    if (from === 0 && to === block.rowCount) return block;
    places ??= typeRows(block);
    const typeCounts = new Uint32Array(block.typeCounts.length);
    // Index at which each type's own columns begin. Common columns use type 0, which no event has.
    const starts = new Uint32Array(block.typeCounts.length);
    starts[0] = from;
    for (let row = to - 1; row >= from; row--) {
      const type = types[row]!;
      typeCounts[type]!++;
      starts[type] = places[row]!;
    }
    const columns: NumberedBlock['columns'] = new Map();
    for (const { name, eventType } of given) {
      const values = block.columns.get(name)!;
      const start = starts[eventType]!;
      columns.set(name, start === 0 ? values : values.subarray(start));
    }
    const recordings = block.columns.get(RECORDING_COLUMN);
    if (recordings) columns.set(RECORDING_COLUMN, recordings.subarray(from));
    return { rowCount: to - from, typeCounts, columns, numbers: block.numbers.subarray(from, to) };
  };
}
