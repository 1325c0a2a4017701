/**
 * Reads the curves of many transactions. To look for the events of one takes as long as to read hundreds of any, so all
 * events of the time that the transactions took are read once, until that were more; what is not complete by then is
 * looked for transaction by transaction:
 *
 *   transactions    |-----|  |----|      |------------------------- ... -|
 *                     |-------|    |---|
 *   read once       |....................|                     then singly
 */
import { bigColumn, column } from '../../store/blocks/column.ts';
import { OWNED_COLUMNS, ownedRows } from '../../store/blocks/owned_rows.ts';
import type { RecordingBlock } from '../../store/blocks/scanned_block.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { EventFilter } from '../../store/store.ts';
import { type AppliedOffsets, type ClockOffsets, checkNodes, clockShifts } from './clock_offsets.ts';
import { type Curve, type CurveSums, createCurveSums } from './curve.ts';
import { affectedTest, callTest, ONLY_COLUMNS, type Only } from './only.ts';

/** A transaction as a list of transactions describes it. */
export interface CurvedTransaction {
  transactionId: string;
  nodes: readonly string[];
  /** Whether any event is write-back, which mostly begins after `lastEndNs`. */
  isWrittenBack: boolean;
  eventCount: number;
  firstNs: bigint;
  /** When the last of its own events ended. */
  lastEndNs: bigint;
}

export interface CurvesRequest extends AppliedOffsets {
  transactions: readonly CurvedTransaction[];
  only: Only;
}

/** To look for the events of a transaction takes as long as to read so many. */
const ROWS_OF_ONE = 256;

const COLUMNS = ['timestamp_ns', 'duration_ns', 'tid', ...ONLY_COLUMNS, ...OWNED_COLUMNS];

/**
 * Returns the curve of each transaction; null for one that is not recorded any more. Yields so that other work can run.
 */
export function* curvesOf(
  recordings: Recordings,
  { transactions, only, ...offsets }: CurvesRequest,
): Generator<void, (Curve | null)[]> {
  checkNodes(offsets, recordings);
  const { clockOffsetsNs } = offsets;
  const curves: (Curve | null)[] = new Array(transactions.length).fill(null);
  const left = new Set(transactions.keys());
  const isDated = datedTest(recordings, clockOffsetsNs);
  const summed = (some: readonly CurvedTransaction[]) => {
    return summing(some, {
      clockOffsetsNs,
      only,
      untilNs: some.map((one) => (isDated(one) ? one.lastEndNs : undefined)),
    });
  };

  const dated = [...left].filter((index) => isDated(transactions[index]!));
  const together = dated.map((index) => transactions[index]!);
  const { sums, reachedNs } = yield* readTogether(recordings, together, summed(together));
  for (const [i, index] of dated.entries()) {
    if (reachedNs !== undefined && transactions[index]!.lastEndNs >= reachedNs) continue;
    curves[index] = sums[i]!.curve();
    left.delete(index);
  }
  for (const index of left) {
    const transaction = transactions[index]!;
    const { transactionId, lastEndNs } = transaction;
    const { look, sums } = summed([transaction]);
    const filter = { transactionId, ...(isDated(transaction) && { toNs: lastEndNs + 1n }) };
    yield* scanned(recordings, filter, (some) => {
      look(some);
      return true;
    });
    curves[index] = sums[0]!.curve();
  }
  return curves;
}

/**
 * Whether all events that matter began within the times of a transaction: no own event begins after the last end, and
 * what is written back later delays none.
 */
function datedTest(recordings: Recordings, clockOffsetsNs: ClockOffsets): (transaction: CurvedTransaction) => boolean {
  const ids = recordings.recordingStates().map(({ recordingId }) => recordingId);
  // The times are those of one copy of a recording, and another may have more events.
  if (new Set(ids).size < ids.length) return () => false;
  return ({ nodes, isWrittenBack }) => {
    const shift = clockShifts(clockOffsetsNs, nodes);
    // An event that is written back may be the first by the aligned clocks.
    return !isWrittenBack || nodes.every((node) => shift(node) === 0n);
  };
}

interface Summing {
  /** Takes the events of the transactions from blocks in order. */
  look(scanned: RecordingBlock): void;
  sums: readonly CurveSums[];
}

interface SummingOptions extends Omit<CurvesRequest, 'transactions'> {
  /** The last start of an event that counts, of each transaction; undefined if all do. */
  untilNs: readonly (bigint | undefined)[];
}

function summing(
  transactions: readonly CurvedTransaction[],
  { clockOffsetsNs, only, untilNs }: SummingOptions,
): Summing {
  const affected = affectedTest(only);
  const owned = ownedRows(transactions);
  const sums = transactions.map(({ nodes }) => {
    const shift = clockShifts(clockOffsetsNs, nodes);
    return createCurveSums(shift);
  });
  return {
    sums,
    look(scanned) {
      const { block, dictionary } = scanned;
      const [timestamps, durations] = [bigColumn(block, 'timestamp_ns'), bigColumn(block, 'duration_ns')];
      const [tids, isAffected, isCall] = [column(block, 'tid'), affected(scanned), callTest(scanned)];
      owned(scanned, (row, owner, isOwn) => {
        const [startNs, durationNs] = [timestamps[row]!, durations[row]!];
        const endNs = untilNs[owner];
        if (endNs !== undefined && startNs > endNs) return;
        const event = { startNs, durationNs, isCall: isCall(row), isAffected: isAffected(row), isOwn };
        sums[owner]!.add(dictionary.node, tids[row]!, event);
      });
    },
  };
}

/** Returns the start of the last event that was read; undefined if all were. */
function* readTogether(
  recordings: Recordings,
  transactions: readonly CurvedTransaction[],
  { look, sums }: Summing,
): Generator<void, Pick<Summing, 'sums'> & { reachedNs: bigint | undefined }> {
  if (transactions.length < 2) return { sums, reachedNs: 0n };
  const rowsMax = transactions.reduce((sum, { eventCount }) => sum + eventCount + ROWS_OF_ONE, 0);
  let rows = 0;
  let reachedNs: bigint | undefined;
  yield* scanned(recordings, timesOf(transactions), (some) => {
    const { rowCount } = some.block;
    if (rowCount === 0) return true;
    look(some);
    rows += rowCount;
    reachedNs = bigColumn(some.block, 'timestamp_ns')[rowCount - 1]!;
    return rows < rowsMax;
  });
  return { sums, reachedNs: rows < rowsMax ? undefined : reachedNs };
}

function timesOf(transactions: readonly CurvedTransaction[]): EventFilter {
  let [fromNs, lastNs] = [transactions[0]!.firstNs, 0n];
  const nodes = new Set<string>();
  for (const transaction of transactions) {
    if (transaction.firstNs < fromNs) fromNs = transaction.firstNs;
    if (transaction.lastEndNs > lastNs) lastNs = transaction.lastEndNs;
    for (const node of transaction.nodes) nodes.add(node);
  }
  return { fromNs, toNs: lastNs + 1n, nodes: [...nodes] };
}

/** Reads until `look` returns false. */
function* scanned(
  recordings: Recordings,
  filter: EventFilter,
  look: (scanned: RecordingBlock) => boolean,
): Generator<void, void> {
  for (const scanned of recordings.scan({ filter, order: 'asc', columns: COLUMNS, reusesMemory: true })) {
    if (!look(scanned)) return;
    yield;
  }
}
