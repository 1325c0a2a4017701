/** Converts the ids in a block of events to the ids of another dictionary for the same texts, files and contexts. */
import { type ColumnArray, getColumnLength, type NumberedBlock } from '../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../bpf/schema/columns.ts';

/**
 * Maps ids of one dictionary to ids of another. The functions are never called with 0, which means "none" in every
 * dictionary.
 */
export interface IdMap {
  /** Maps the id of a text. `of` is the name of the text's field, or `service` for an owner, a queuer or an origin. */
  name(id: number, of: string): number;
  file(id: number): number;
  context(id: number): number;
}

type MapId = (id: number) => number;

export function remapBlock(block: NumberedBlock, ids: IdMap): NumberedBlock {
  const columns = new Map(block.columns);
  for (const column of COLUMNS) {
    const values = columns.get(column.name);
    const mapId = values && chooseIdMap(column, ids);
    if (mapId) columns.set(column.name, mapValues(values, getColumnLength(block, column), mapId));
  }
  return { ...block, columns };
}

/** Returns the function that maps the ids of a column; undefined if the column contains no ids. */
function chooseIdMap({ source, slot, field }: Column, ids: IdMap): MapId | undefined {
  switch (source) {
    case 'text':
      return (id) => ids.name(id, field);
    case 'process':
      return (id) => ids.name(id, 'service');
    case 'file':
      return ids.file;
    case 'context':
      return slot === 0 ? ids.context : undefined;
    case 'queuer':
      return slot === 0 ? (id) => ids.name(id, 'service') : ids.context;
    case 'origins':
      // Each origin has three columns: service, context and bytes.
      return [(id: number) => ids.name(id, 'service'), ids.context, undefined][slot % 3];
    case 'value':
    case 'boot_time':
      return undefined;
  }
}

function mapValues(values: ColumnArray, length: number, mapId: MapId): Uint32Array {
  const mapped = new Uint32Array(length);
  let [last, lastMapped] = [0, 0];
  for (let i = 0; i < length; i++) {
    const id = values[i] as number;
    if (id !== last) {
      last = id;
      lastMapped = id === 0 ? 0 : mapId(id);
    }
    mapped[i] = lastMapped;
  }
  return mapped;
}
