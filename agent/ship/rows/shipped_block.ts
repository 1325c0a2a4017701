/** A segment's events with what they refer to, from which the rows of all tables are made. */
import type { ColumnArray, NumberedBlock } from '../../../bpf/schema/block.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { SEVERAL_OWNERS } from '../../clickhouse/tables/schema.ts';
import type { ContextText } from '../../recording/format/ids.ts';
import { ORIGINS, OWN } from '../../recording/format/owner_columns.ts';
import type { RecordedFile } from '../../recording/read/lookup.ts';
import { type NameTexts, nameTexts } from './block_texts.ts';

/** What a recording says of itself, and what its ids refer to. */
export interface ShippedRecording {
  /** 16 hexadecimal digits. */
  readonly recordingId: string;
  readonly node: string;
  name(id: number): string;
  file(id: number): RecordedFile | undefined;
  context(id: number): ContextText;
}

export interface ShippedBlock {
  readonly block: NumberedBlock;
  readonly rowCount: number;
  readonly names: NameTexts;
  /** Rows of each event type, by its id. */
  readonly rowsOf: readonly Uint32Array[];
  /** Place in `names` of each row's owner: the only service that owns the event or a part of it. */
  readonly owners: Uint32Array;
  /** Place in `names` of each row's own service. */
  readonly services: Uint32Array;
}

export interface BlockSource {
  /** What it returns is valid until the next call. */
  open(block: NumberedBlock): ShippedBlock;
}

const NO_ROWS = new Uint32Array(0);
const TYPE_IDS_END = Math.max(...EVENTS.map(({ id }) => id)) + 1;

/** Keeps memory between blocks. */
export function blockSource(recording: ShippedRecording): BlockSource {
  const names = nameTexts(recording.name);
  let owners = new Uint32Array(0);
  let services = new Uint32Array(0);

  function ownersOf(block: NumberedBlock, rowsOf: readonly Uint32Array[], several: number): void {
    owners.set(services.subarray(0, block.rowCount));
    for (const { eventType, service } of ORIGINS) {
      const rows = rowsOf[eventType]!;
      const ids = block.columns.get(service.name)! as Uint32Array;
      for (let i = 0; i < rows.length; i++) {
        const place = names.placeOf(ids[i]!);
        const row = rows[i]!;
        if (place === 0 || owners[row] === place) continue;
        owners[row] = owners[row] === 0 ? place : several;
      }
    }
  }

  return {
    open(block) {
      const { rowCount } = block;
      if (owners.length < rowCount) [owners, services] = [new Uint32Array(rowCount), new Uint32Array(rowCount)];
      names.clear();
      const several = names.placeOfEntry(SEVERAL_OWNERS);
      names.places(block.columns.get(OWN.service.name)! as Uint32Array, rowCount, services);
      const rowsOf = rowsByType(block);
      ownersOf(block, rowsOf, several);
      return { block, rowCount, names, rowsOf, owners, services };
    },
  };
}

function rowsByType(block: NumberedBlock): Uint32Array[] {
  const types = (block.columns.get('event_type')! as Uint8Array).subarray(0, block.rowCount);
  return Array.from({ length: TYPE_IDS_END }, (_, id) => {
    const count = block.typeCounts[id] ?? 0;
    if (id === 0 || count === 0) return NO_ROWS;
    const rows = new Uint32Array(count);
    nativeColumns.rowsOfType(types, id, rows);
    return rows;
  });
}

let identity = Uint32Array.from({ length: 4096 }, (_, i) => i);

/** Sets `target[rows[i]]` to `values[i]`. */
export function scatter(values: ColumnArray, target: ColumnArray, rows: Uint32Array): void {
  if (identity.length < rows.length) identity = Uint32Array.from({ length: rows.length }, (_, i) => i);
  nativeColumns.scatterValues(values, identity.subarray(0, rows.length), target, rows);
}
