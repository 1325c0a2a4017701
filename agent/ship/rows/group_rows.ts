/** Makes the blocks of all tables that a group of segments fills, segment by segment. */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { type BlockEncoder, newBlockEncoder } from '../../clickhouse/native/encode.ts';
import { BUCKET_NS_DEFAULT, type Table, tablesOf } from '../../clickhouse/tables/schema.ts';
import { eventRows } from './event_rows.ts';
import { nameRows } from './name_rows.ts';
import { ownerRows } from './owner_rows.ts';
import { blockSource, type ShippedRecording } from './shipped_block.ts';
import { statRows } from './stat_rows.ts';
import { sentColumns, type TableRows, tableRows } from './table_rows.ts';

/** Tables that are filled from events beside `event`, in the order in which they are sent. */
export const BESIDE_EVENTS = ['by_id', 'transaction', 'stat', 'name'] as const;
export type BesideEvents = (typeof BESIDE_EVENTS)[number];

/** Columns do not depend on the length of a bucket. */
const TABLES = new Map(tablesOf(BUCKET_NS_DEFAULT).map((table) => [table.name, table]));

export function tableNamed(name: string): Table {
  const table = TABLES.get(name);
  if (!table) throw new Error(`there is no table ${name}`);
  return table;
}

export interface SentTable {
  table: string;
  columns: readonly string[];
  /** Blocks of FORMAT Native. */
  blocks: readonly Buffer[];
}

export interface GroupRows {
  /** Columns of the table `event` that events of these types fill. */
  eventColumns(typeMask: bigint): string[];
  /** Forgets the rows that were made: the group begins again, or another one. */
  begin(): void;
  /** Returns the block of the table `event`; the rows of the other tables are kept until `beside`. */
  add(block: NumberedBlock, firstNumber: number, typeMask: bigint): Buffer;
  /** The rows of the other tables since `begin`. */
  beside(): SentTable[];
}

export function groupRows(recording: ShippedRecording): GroupRows {
  const source = blockSource(recording);
  const events = eventRows(recording);
  const encoder = newBlockEncoder();
  const collected = Object.fromEntries(
    BESIDE_EVENTS.map((name) => [name, collectedRows(tableNamed(name), encoder)]),
  ) as Record<BesideEvents, Collected>;
  const owners = ownerRows(recording, collected.by_id.rows, collected.transaction.rows);
  const stats = statRows(recording, collected.stat.rows);
  const names = nameRows(collected.name.rows);

  return {
    eventColumns: events.columnNames,
    begin() {
      names.clear();
      for (const one of Object.values(collected)) one.clear();
    },
    add(block, firstNumber, typeMask) {
      const shipped = source.open(block);
      const encoded = encoder.encode(events.columnsOf(shipped, typeMask), block.rowCount);
      owners.add(shipped, firstNumber);
      stats.add(shipped, firstNumber);
      names.add(shipped);
      for (const one of Object.values(collected)) one.close();
      return encoded;
    },
    beside: () => BESIDE_EVENTS.map((name) => collected[name].sent()).filter(({ blocks }) => blocks.length > 0),
  };
}

interface Collected {
  rows: TableRows;
  /** Encodes the rows of a segment. */
  close(): void;
  clear(): void;
  sent(): SentTable;
}

/** Encoded rows take a tenth of the memory that they take as objects. */
function collectedRows(table: Table, encoder: BlockEncoder): Collected {
  const rows = tableRows(table.columns);
  const columns = sentColumns(table.columns).map(({ name }) => name);
  let blocks: Buffer[] = [];
  return {
    rows,
    close() {
      const { length } = rows;
      if (length > 0) blocks.push(encoder.encode(rows.take(), length));
    },
    clear() {
      rows.take();
      blocks = [];
    },
    sent: () => ({ table: table.name, columns, blocks }),
  };
}
