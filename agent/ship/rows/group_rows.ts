/** Makes the blocks of all tables that a group of segments fills, segment by segment. */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { type NativeShipment, nativeShipment } from '../../../bpf/schema/native_shipment.ts';
import type { ContextText } from '../../recording/format/ids.ts';
import { hashText53 } from '../../recording/format/text_hash.ts';
import type { RecordedFile } from '../../recording/read/lookup.ts';
import { BESIDE_EVENTS, buildShipmentPlan, findTable, selectEventColumns } from './shipment_plan.ts';
import { selectSentColumns } from './table_rows.ts';

/** The identity of a recording, and the entries that its ids refer to. */
export interface ShippedRecording {
  /** 16 hexadecimal digits. */
  readonly recordingId: string;
  readonly node: string;
  name(id: number): string;
  file(id: number): RecordedFile | undefined;
  context(id: number): ContextText;
}

export interface SentTable {
  table: string;
  columns: readonly string[];
  /** Blocks in ClickHouse's format Native. */
  blocks: readonly Buffer[];
}

export interface GroupRows {
  /** Columns of the table `event` that events of these types fill. */
  listEventColumns(typeMask: bigint): string[];
  /** Drops the rows made so far. Called before a group is sent for the first time or again. */
  begin(): void;
  /**
   * Makes the rows of a segment. Returns the block of the table `event`, which is valid until the next call; the rows
   * of the other tables are kept until `readBesideTables`. Returns undefined, and keeps nothing, if a value does not
   * fit its column.
   */
  add(block: NumberedBlock, firstNumber: number, typeMask: bigint): Buffer | undefined;
  /** Returns the rows of the other tables that were made since `begin`. */
  readBesideTables(): SentTable[];
}

const FIRST_BYTES = 64 * 1024;

const SENT_COLUMNS = BESIDE_EVENTS.map((name) =>
  selectSentColumns(findTable(name).columns).map((column) => column.name),
);

export function groupRows(recording: ShippedRecording): GroupRows {
  const shipment = nativeShipment.createShipment(buildShipmentPlan(recording));
  let output = Buffer.allocUnsafeSlow(FIRST_BYTES);
  let chosen = { mask: 0n, ...selectEventColumns(0n) };

  function chooseColumns(mask: bigint): typeof chosen {
    if (chosen.mask !== mask) chosen = { mask, ...selectEventColumns(mask) };
    return chosen;
  }

  return {
    listEventColumns: (mask) => chooseColumns(mask).names,
    begin: () => nativeShipment.beginGroup(shipment),
    add({ columns, numbers, rowCount }, firstNumber, mask) {
      const { places } = chooseColumns(mask);
      const values = COLUMNS.map(({ name }) => columns.get(name)!);
      for (;;) {
        const size = nativeShipment.addSegment(shipment, values, numbers, rowCount, firstNumber, places, output);
        if (size === 0) output = Buffer.allocUnsafeSlow(2 * output.length);
        else if (size !== undefined) return output.subarray(0, size);
        else if (!lookUp(shipment, recording)) return undefined;
      }
    },
    readBesideTables: () =>
      BESIDE_EVENTS.map((table, i) => {
        const blocks = nativeShipment.tableBlocks(shipment, i);
        return { table, columns: SENT_COLUMNS[i]!, blocks: blocks.length > 0 ? [blocks] : [] };
      }).filter(({ blocks }) => blocks.length > 0),
  };
}

/**
 * Passes the entries of missing ids to the addon. If an entry does not fit its column, passes nothing and returns
 * false.
 */
function lookUp(shipment: NativeShipment, recording: ShippedRecording): boolean {
  const [names, files, contexts] = nativeShipment.missingIds(shipment).map((ids) => new Set(ids));
  const known = Array.from(contexts!, (id) => ({ id, ...recording.context(id) }));
  if (!known.every(isFitting)) return false;
  for (const { id, transactionId, traceId, spanId } of known) {
    const hash = transactionId === null ? 0 : hashText53(transactionId);
    nativeShipment.addContext(shipment, id, transactionId, hash, traceId, parseHex(traceId), parseHex(spanId));
  }
  for (const id of names!) nativeShipment.addName(shipment, id, recording.name(id));
  for (const id of files!) {
    const { path, kind } = recording.file(id) ?? { path: '', kind: '' };
    nativeShipment.addFile(shipment, id, path, kind);
  }
  return true;
}

/**
 * Whether the ids of a context fit their columns. The columns store bytes, so an id that does not have exactly the
 * expected hex digits would be read back differently. A context without any id was removed after its segment was read.
 */
function isFitting({ transactionId, traceId, spanId }: ContextText): boolean {
  if (transactionId === null && traceId === null && spanId === null) return false;
  return (traceId === null || TRACE_ID.test(traceId)) && (spanId === null || SPAN_ID.test(spanId));
}

const TRACE_ID = /^[0-9a-f]{32}$/;
const SPAN_ID = /^[0-9a-f]{16}$/;

function parseHex(text: string | null): Buffer {
  return Buffer.from(text ?? '', 'hex');
}
