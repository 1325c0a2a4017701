/** Rows of the table `event`. Arrays are kept between blocks: nothing is allocated for a row. */
import { type ColumnArray, newColumnArray } from '../../../bpf/schema/block.ts';
import type { Column } from '../../../bpf/schema/columns.ts';
import type { Fields } from '../../../bpf/schema/define.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { ColumnValues, Column as SentColumn } from '../../clickhouse/native/encode.ts';
import { newTextTable, type Texts, type TextTable } from '../../clickhouse/native/texts.ts';
import { typeOf } from '../../clickhouse/native/types.ts';
import { EVENT_COLUMNS, type EventColumn, type Part } from '../../clickhouse/tables/event_columns.ts';
import { typeMask } from '../../recording/codec/segment_facts.ts';
import { ORIGINS, OWN } from '../../recording/format/owner_columns.ts';
import type { RecordedFile } from '../../recording/read/lookup.ts';
import { blockEntries } from './block_texts.ts';
import { contextTexts } from './context_texts.ts';
import { originLists } from './origin_lists.ts';
import { type ShippedBlock, type ShippedRecording, scatter } from './shipped_block.ts';

export interface EventRows {
  /** The columns of events of these types: a column that is not sent is 0 or ''. */
  columnNames(typeMask: bigint): string[];
  /** What it returns is valid until the next call. */
  columnsOf(shipped: ShippedBlock, typeMask: bigint): SentColumn[];
}

const ORIGIN_TYPES = [...new Set(ORIGINS.map(({ eventType }) => eventType))];
const FIXED = ['recording', 'number', 'owner', 'node'];
const U64 = typeOf('UInt64');
const WORD = typeOf('LowCardinality(String)');

function isFor({ part, source }: EventColumn, mask: bigint): boolean {
  const types = part.startsWith('origin_') ? ORIGIN_TYPES : [source.eventType];
  return types.includes(0) || (typeMask(types) & mask) !== 0n;
}

/** Words of a column by its numbers. */
function wordTable(words: ReadonlyMap<number, string>): { table: TextTable; places: Map<number, number> } {
  const places = new Map([...words.keys()].map((number, i) => [number, i + 1]));
  return { table: newTextTable(['', ...words.values()]), places };
}

function labelsOf({ source, part }: EventColumn): ReadonlyMap<number, string> | undefined {
  if (part === 'event_type') return new Map(EVENTS.map(({ id, name }) => [id, name]));
  if (part !== 'label') return undefined;
  const fields: Fields = EVENTS.find(({ id }) => id === source.eventType)?.fields ?? {};
  return fields[source.field]?.kind.labels;
}

const WORDS = new Map(
  EVENT_COLUMNS.flatMap((column) => {
    const labels = labelsOf(column);
    return labels ? [[column.name, wordTable(labels)] as const] : [];
  }),
);

export function eventRows(recording: ShippedRecording): EventRows {
  const memory = arrays();
  const contexts = contextTexts(recording.context);
  const files = fileTexts(recording.file);
  const origins = originLists(recording.context);
  const nodes = newTextTable([recording.node]);
  const recordingId = BigInt(`0x${recording.recordingId}`);

  /** Places of what a column of ids refers to, for every row. */
  function places({ block, rowCount, rowsOf }: ShippedBlock, source: Column, placeOf: Places): Uint32Array {
    const ids = block.columns.get(source.name)! as Uint32Array;
    const found = memory.of(`${source.name} places`, 'u32', rowCount) as Uint32Array;
    if (source.eventType === 0) {
      placeOf(ids, rowCount, found);
      return found;
    }
    const rows = rowsOf[source.eventType]!;
    const own = memory.of('own places', 'u32', rows.length) as Uint32Array;
    placeOf(ids, rows.length, own);
    found.fill(0, 0, rowCount);
    scatter(own, found, rows);
    return found;
  }

  function numbers({ block, rowCount, rowsOf }: ShippedBlock, { name, storage, eventType }: Column): ColumnArray {
    const values = block.columns.get(name)!;
    if (eventType === 0) return values;
    const rows = rowsOf[eventType]!;
    if (rows.length === rowCount) return values;
    const all = memory.of(name, storage, rowCount);
    new Uint8Array(all.buffer, all.byteOffset, rowCount * all.BYTES_PER_ELEMENT).fill(0);
    scatter(values, all, rows);
    return all;
  }

  function words(shipped: ShippedBlock, column: EventColumn): Texts {
    const { table, places: placeOf } = WORDS.get(column.name)!;
    const values = numbers(shipped, column.source) as Uint8Array | Uint16Array;
    const ids = memory.of(`${column.name} words`, 'u32', shipped.rowCount) as Uint32Array;
    const rows = column.source.eventType === 0 ? undefined : shipped.rowsOf[column.source.eventType]!;
    if (rows) {
      // The number 0 is a word too, but not for events of other types.
      ids.fill(0, 0, shipped.rowCount);
      for (const row of rows) ids[row] = placeOf.get(values[row]!) ?? 0;
    } else for (let row = 0; row < shipped.rowCount; row++) ids[row] = placeOf.get(values[row]!) ?? 0;
    return { table, ids };
  }

  function valuesOf(shipped: ShippedBlock, column: EventColumn, own: OwnPlaces): ColumnValues {
    const { names } = shipped;
    const part: Part = column.part;
    switch (part) {
      case 'number':
        return numbers(shipped, column.source) as ColumnValues;
      case 'event_type':
      case 'label':
        return words(shipped, column);
      case 'text':
        return { table: names.table, ids: places(shipped, column.source, names.places) };
      case 'service':
        return { table: names.table, ids: shipped.services };
      case 'path':
      case 'file_kind':
        return { table: files.tables[part], ids: own.files(column.source) };
      case 'transaction':
      case 'trace':
      case 'span':
        return { table: contexts.tables[part], ids: own.contexts };
      default:
        return origins.lists[part];
    }
  }

  return {
    columnNames: (mask) => [...FIXED, ...EVENT_COLUMNS.filter((column) => isFor(column, mask)).map(({ name }) => name)],
    columnsOf(shipped, mask) {
      const { block, rowCount, names, owners } = shipped;
      contexts.clear();
      files.clear();
      if ((typeMask(ORIGIN_TYPES) & mask) !== 0n) origins.set(shipped);
      const ofFiles = new Map<string, Uint32Array>();
      const own: OwnPlaces = {
        contexts: places(shipped, OWN.context, contexts.places),
        files(source) {
          const known = ofFiles.get(source.name) ?? places(shipped, source, files.places);
          ofFiles.set(source.name, known);
          return known;
        },
      };
      const zeros = memory.of('zeros', 'u32', rowCount) as Uint32Array;
      const recordings = memory.of('recording', 'u64', rowCount) as BigUint64Array;
      recordings.fill(recordingId);
      const wanted = EVENT_COLUMNS.filter((column) => isFor(column, mask));
      return [
        { name: 'recording', type: U64, values: recordings as ColumnValues },
        { name: 'number', type: U64, values: block.numbers as ColumnValues },
        { name: 'owner', type: WORD, values: { table: names.table, ids: owners } },
        { name: 'node', type: WORD, values: { table: nodes, ids: zeros } },
        ...wanted.map((column) => ({ name: column.name, type: column.type, values: valuesOf(shipped, column, own) })),
      ];
    },
  };
}

type Places = (ids: Uint32Array, length: number, places: Uint32Array) => void;

interface OwnPlaces {
  contexts: Uint32Array;
  files(source: Column): Uint32Array;
}

/** Arrays by name, which grow as needed. */
function arrays() {
  const known = new Map<string, ColumnArray>();
  return {
    of(name: string, storage: Column['storage'], length: number): ColumnArray {
      const kept = known.get(name);
      if (kept && kept.length >= length) return kept;
      const made = newColumnArray(storage, length);
      known.set(name, made);
      return made;
    },
  };
}

const NO_FILE = { path: '', kind: '' };

function fileTexts(fileOf: (id: number) => RecordedFile | undefined) {
  const tables = { path: newTextTable(), file_kind: newTextTable() };
  const entries = blockEntries<{ path: string; kind: string }>({
    find: (id) => fileOf(id) ?? NO_FILE,
    keyOf: ({ path, kind }) => `${kind}:${path}`,
    add({ path, kind }) {
      tables.path.add(path);
      tables.file_kind.add(kind);
    },
    clear() {
      for (const table of Object.values(tables)) table.clear();
    },
  });
  return { ...entries, tables };
}
