/** Rows of the tables `by_id` and `transaction`: what a segment has of each transaction and trace. */
import { TRACE_ID, TRANSACTION_ID } from '../../clickhouse/tables/schema.ts';
import type { BlockRange } from '../../recording/codec/encode_segment.ts';
import type { ContextText } from '../../recording/format/ids.ts';
import { textHash53 } from '../../recording/format/text_hash.ts';
import { wordsToBigint } from '../../recording/words64.ts';
import { type Keyed, type Summary, summarize } from '../../recording/write/transaction_sums.ts';
import { hexBytes } from './context_texts.ts';
import type { ShippedBlock, ShippedRecording } from './shipped_block.ts';
import type { Cell, TableRows } from './table_rows.ts';

export interface OwnerRows {
  /** Adds what a segment has; `firstNumber` is that of the segment, and names the rows. */
  add(shipped: ShippedBlock, firstNumber: number): void;
}

const DAY_NS = 86_400_000_000_000n;

interface Owner extends Keyed {
  id: string;
  traceId: string | null;
  /** Rows with the latest start, and the owners of the events as places in the names. */
  lastRow: number;
  owners: Set<number>;
}

/** Returns a function that gives the owner of each context: contexts with the same id have the same one. */
function ownersBy(idOf: (context: number) => { id: string | null; traceId: string | null }) {
  const byId = new Map<string, Owner>();
  return (context: number): Owner | undefined => {
    const { id, traceId } = idOf(context);
    if (id === null) return undefined;
    const known = byId.get(id);
    if (known) return known;
    const owner = { transactionKey: byId.size + 1, id, traceId, lastRow: -1, owners: new Set<number>() };
    byId.set(id, owner);
    return owner;
  };
}

/**
 * Finds the traces that are one transaction each, as most are: what is summed up for the transaction is that of the
 * trace too. Events of a context are of both or of none.
 */
function tracesOfOne(contexts: readonly ContextText[]): { byTransaction: Map<string, string>; others: Set<string> } {
  const transactions = new Map<string, string | null>();
  const traces = new Map<string, string | null>();
  const others = new Set<string>();
  for (const { transactionId, traceId } of contexts) {
    if (traceId !== null) {
      const known = transactions.get(traceId);
      if (transactionId === null || (known !== undefined && known !== transactionId)) others.add(traceId);
      transactions.set(traceId, transactionId);
    }
    if (transactionId === null) continue;
    const known = traces.get(transactionId);
    if (known !== undefined && known !== traceId) for (const one of [known, traceId]) if (one !== null) others.add(one);
    traces.set(transactionId, traceId);
  }
  const byTransaction = new Map<string, string>();
  for (const [traceId, transactionId] of transactions)
    if (!others.has(traceId)) byTransaction.set(transactionId!, traceId);
  return { byTransaction, others };
}

export function ownerRows(recording: ShippedRecording, byId: TableRows, transaction: TableRows): OwnerRows {
  const recordingId = BigInt(`0x${recording.recordingId}`);

  function summariesOf(shipped: ShippedBlock, ownerOf: (context: number) => Owner | undefined): Summary<Owner>[] {
    const { block, owners } = shipped;
    const timestamps = block.columns.get('timestamp_ns')! as BigUint64Array;
    const found = summarize(block, rangeOf(shipped), ownerOf, ({ transaction: owner }, row) => {
      if (owner.lastRow < 0 || timestamps[row]! > timestamps[owner.lastRow]!) owner.lastRow = row;
      owner.owners.add(owners[row]!);
    });
    return [...found.values()];
  }

  function cellsOf({ block, names }: ShippedBlock, summary: Summary<Owner>): { services: string[]; cells: Cell[] } {
    const timestamps = block.columns.get('timestamp_ns')! as BigUint64Array;
    const durations = block.columns.get('duration_ns')! as BigUint64Array;
    const services = [...new Set(summary.services.map((id) => names.entries[names.placeOf(id)]!))].sort();
    const cells = [
      recording.node,
      services,
      timestamps[summary.firstRow]!,
      timestamps[summary.transaction.lastRow]!,
      wordsToBigint(summary.ownEnd.low, summary.ownEnd.high),
      BigInt(summary.eventCount),
      BigInt(summary.errorCount),
      durations[summary.slowestRow]!,
      block.numbers[summary.slowestRow]!,
      block.numbers[summary.lastRow]!,
      BigInt(summary.writtenBackCount),
      BigInt(summary.writtenBackBytes),
      wordsToBigint(summary.writtenBackEnd.low, summary.writtenBackEnd.high),
      hexBytes(summary.transaction.traceId),
    ];
    return { services, cells };
  }

  function addById(
    shipped: ShippedBlock,
    kind: number,
    summary: Summary<Owner>,
    firstNumber: bigint,
    cells: Cell[],
    id = summary.transaction.id,
  ): void {
    const day = Number((cells[2] as bigint) / DAY_NS);
    const owners = [...summary.transaction.owners].map((place) => shipped.names.entries[place]!).sort();
    byId.add([kind, id, day, recordingId, firstNumber, owners, ...cells]);
  }

  return {
    add(shipped, firstNumber) {
      const first = BigInt(firstNumber);
      const contexts: ContextText[] = [];
      const byTransaction = ownersBy((context) => {
        const text = recording.context(context);
        contexts.push(text);
        return { id: text.transactionId, traceId: text.traceId };
      });
      const summaries = summariesOf(shipped, byTransaction);
      const traces = tracesOfOne(contexts);
      for (const summary of summaries) {
        const { services, cells } = cellsOf(shipped, summary);
        const { id } = summary.transaction;
        addById(shipped, TRANSACTION_ID, summary, first, cells);
        const hash = BigInt(textHash53(id));
        // A list without a filter by service reads one row for each transaction: that with ''.
        for (const service of ['', ...services]) transaction.add([service, id, hash, recordingId, first, ...cells]);
        const traceId = traces.byTransaction.get(id);
        if (traceId !== undefined) addById(shipped, TRACE_ID, summary, first, cells, traceId);
      }
      if (traces.others.size === 0) return;
      const byTrace = ownersBy((context) => {
        const { traceId } = recording.context(context);
        return { id: traceId !== null && traces.others.has(traceId) ? traceId : null, traceId };
      });
      for (const summary of summariesOf(shipped, byTrace))
        addById(shipped, TRACE_ID, summary, first, cellsOf(shipped, summary).cells);
    },
  };
}

function rangeOf({ block, rowCount }: ShippedBlock): BlockRange {
  return { from: 0, to: rowCount, typeFrom: new Uint32Array(block.typeCounts.length), typeTo: block.typeCounts };
}
