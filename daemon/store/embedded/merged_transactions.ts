/**
 * Lists the transactions of several recordings. Tables in memory suffice to select transactions; only their summaries
 * are read from the recordings.
 */

import { toWords } from '../../../agent/recording/words64.ts';
import { createBoxTest } from '../../sums/box.ts';
import { joinParts, type RecordingPart } from '../joined_transaction.ts';
import type {
  ChosenFilter,
  ChosenRequest,
  TransactionPage,
  TransactionReach,
  TransactionRows,
  TransactionSummary,
} from '../store.ts';
import { withFileErrors } from './failures.ts';
import { createIdTest, type IdTest } from './id_part.ts';
import type { OpenRecording } from './recording_files.ts';
import { type ChosenTransaction, chooseTransactions, createOwnerTest, joinKnownRows } from './transaction_choice.ts';
import { findTableIndex, groupTransactions, isAlone, type TransactionGroups } from './transaction_groups.ts';
import { findReach } from './transaction_reach.ts';

/** Number of summaries that are read in one step. */
const READ_A_STEP = 64;

/** Only one call may run at a time, because each call updates the shared tables. */
export interface TransactionLists {
  /**
   * Passes all transactions that the filter selects to `add`, in blocks. `add` must not keep a block, because its
   * memory is reused. Returns the reach of these transactions.
   */
  passTransactions(
    open: readonly OpenRecording[],
    filter: ChosenFilter,
    add: (rows: TransactionRows) => void,
  ): Generator<void, TransactionReach | null>;
  list(open: readonly OpenRecording[], request: ChosenRequest): Generator<void, TransactionPage>;
}

export function createTransactionLists(): TransactionLists {
  /** The groups of the last call; they are valid as long as the tables have these versions. */
  let grouped: { versions: string; groups: TransactionGroups } | undefined;

  function* groupOpenTransactions(open: readonly OpenRecording[]): Generator<void, TransactionGroups> {
    const versions = open.map(({ file, reader }) => `${file.identity} ${reader.transactionIndex.version()}`).join();
    const tables = open.map(({ reader }) => reader.transactionIndex.columns());
    // Versions start over when a file is closed and opened again, so the tables themselves are compared as well.
    const isSame = grouped?.versions === versions && grouped.groups.tables.every((table, i) => table === tables[i]);
    if (grouped && isSame) return grouped.groups;
    const groups = yield* groupTransactions(tables);
    grouped = { versions, groups };
    return groups;
  }

  function* bringUpToDate(open: readonly OpenRecording[]): Generator<void, void> {
    for (const { file, reader } of open) while (!withFileErrors(file, () => reader.transactionIndex.step())) yield;
  }

  return {
    *passTransactions(open, filter, add) {
      yield* bringUpToDate(open);
      const groups = yield* groupOpenTransactions(open);
      const selected = selectTransactions(open, groups, filter, yield* createIdTest(open, groups, filter));
      for (;;) {
        const { done, value } = selected.next();
        if (done) return value;
        add(value);
        yield;
      }
    },
    *list(open, request) {
      yield* bringUpToDate(open);
      for (;;) {
        const groups = yield* groupOpenTransactions(open);
        // If there is one transaction more than requested, there is a next page.
        const wanted = { ...request, limit: request.limit + 1 };
        const isNamed = yield* createIdTest(open, groups, request.filter);
        const { chosen, reach } = yield* chooseTransactions(open, groups, wanted, isNamed);
        const shown = chosen.slice(0, request.limit);
        const transactions = yield* readChosen(open, groups, shown);
        // Retention removed a chosen transaction. The tables mark its rows as gone, so the next attempt skips them.
        if (!transactions) continue;
        const last = chosen.length > shown.length ? shown.at(-1) : undefined;
        const transactionId = transactions.at(-1)?.transactionId;
        return {
          transactions,
          reach,
          next: last && transactionId !== undefined ? { value: last.value, transactionId } : null,
        };
      }
    },
  };
}

/** Reads the summaries of the chosen transactions; returns undefined if one of the transactions was removed. */
function* readChosen(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  chosen: readonly ChosenTransaction[],
): Generator<void, TransactionSummary[] | undefined> {
  const read: TransactionSummary[] = [];
  let allThere = true;
  for (const [i, { rows }] of chosen.entries()) {
    if (i % READ_A_STEP === READ_A_STEP - 1) yield;
    const byTable = Map.groupBy(rows, (row) => findTableIndex(groups, row));
    const parts = [...byTable].flatMap(([table, own]) => readPart(open[table]!, own, groups.starts[table]!));
    if (parts.length === byTable.size) read.push(joinParts(parts));
    else allThere = false;
  }
  return allThere ? read : undefined;
}

function readPart(recording: OpenRecording, rows: readonly number[], start: number): RecordingPart[] {
  const { file, reader } = recording;
  const { columns, setGone } = reader.transactionIndex;
  const places = rows.map((row) => row - start);
  const keys = places.map((place) => columns().keys[place]!);
  const summary = withFileErrors(file, () => reader.readTransactionByKeys(keys));
  if (summary) return [{ recording, summary }];
  for (const place of places) setGone(place);
  return [];
}

export function readMergedTransaction(
  recordings: readonly OpenRecording[],
  transactionId: string,
): TransactionSummary | undefined {
  const parts = readParts(recordings, transactionId);
  return parts.length === 0 ? undefined : joinParts(parts);
}

/** Returns a map from id to summary, without unknown transactions. */
export function readMergedTransactions(
  recordings: readonly OpenRecording[],
  ids: readonly string[],
): Map<string, TransactionSummary> {
  const found = ids.map((id) => [id, readMergedTransaction(recordings, id)] as const);
  return new Map(found.flatMap(([id, summary]) => (summary ? [[id, summary]] : [])));
}

/**
 * Returns one part for each recording. Of several copies of a recording, only the copy with the most events counts: it
 * is not known which events the copies have in common, and no event must count twice.
 */
function readParts(recordings: readonly OpenRecording[], transactionId: string): RecordingPart[] {
  const parts = new Map<string, RecordingPart>();
  for (const recording of recordings) {
    const summary = withFileErrors(recording.file, () => recording.reader.readTransaction(transactionId));
    const known = parts.get(recording.recordingId)?.summary.eventCount ?? 0;
    if (summary && summary.eventCount > known) parts.set(recording.recordingId, { recording, summary });
  }
  return [...parts.values()];
}

/* Iterates over all transactions that a filter selects. Uses only the tables in memory. */

const ROWS_A_STEP = 8192;

/**
 * Yields the selected transactions in blocks. Each block reuses the arrays of the previous block. An empty block is a
 * pause in which other work can run. Returns the reach of all selected transactions.
 */
function* selectTransactions(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  filter: ChosenFilter,
  isNamed: IdTest | undefined,
): Generator<TransactionRows, TransactionReach | null> {
  const rows = createTransactionRows();
  const { add, reach } = findReach(open, groups);
  const first = toWords(rows.startsNs);
  const durations = toWords(rows.durationsNs);
  const { hasError: failed, hashes, excluded, ...bounds } = filter;
  const hasOwners = filter.services || filter.nodes || excluded?.services || excluded?.nodes;
  const isOwned = hasOwners ? createOwnerTest(open, groups, filter) : undefined;
  const hasFailed = (at: number) => rows.failed[at] === 1;
  const isWanted = createBoxTest({ ...bounds, ...(failed !== undefined && { failed }) }, { ...rows, hasFailed });
  const { tables, starts, covered } = groups;
  const words = tables.map(({ firstNs, endNs }) => ({ first: toWords(firstNs), end: toWords(endNs) }));

  /** Adds the transaction whose first row in the tables is `row`, if the filter selects it. */
  function write(row: number, table: number): void {
    const place = row - starts[table]!;
    const at = rows.length;
    rows.hashes[at] = tables[table]!.hashes[place]!;
    let own: readonly number[] = [row];
    if (isAlone(groups, row)) {
      const times = words[table]!;
      first[at * 2] = times.first[place * 2]!;
      first[at * 2 + 1] = times.first[place * 2 + 1]!;
      subtract(times.end, place, times.first, durations, at);
      rows.failed[at] = tables[table]!.hasError[place]!;
    } else {
      const known = joinKnownRows(open, groups, row);
      own = known.rows;
      rows.startsNs[at] = known.firstNs;
      rows.durationsNs[at] = known.endNs > known.firstNs ? known.endNs - known.firstNs : 0n;
      rows.failed[at] = known.hasError ? 1 : 0;
    }
    if (!isWanted(at) || (hashes && !hashes.has(rows.hashes[at]!)) || (isOwned && !isOwned(own))) return;
    if (isNamed && !isNamed(own)) return;
    add(own, rows.startsNs[at]!, rows.startsNs[at]! + rows.durationsNs[at]!);
    rows.length++;
  }

  for (let table = 0; table < tables.length; table++) {
    for (let row = starts[table]!; row < starts[table + 1]!; row++) {
      if (covered[row] === 0) write(row, table);
      if (row % ROWS_A_STEP !== ROWS_A_STEP - 1) continue;
      yield rows;
      rows.length = 0;
    }
  }
  yield rows;
  return reach();
}

function createTransactionRows(): TransactionRows {
  return {
    length: 0,
    hashes: new Float64Array(ROWS_A_STEP),
    startsNs: new BigUint64Array(ROWS_A_STEP),
    durationsNs: new BigUint64Array(ROWS_A_STEP),
    failed: new Uint8Array(ROWS_A_STEP),
  };
}

/**
 * Writes the duration, end - start. The duration is 0 for a transaction that has only written-back events, because its
 * caller did not wait for them.
 */
function subtract(ends: Uint32Array, place: number, starts: Uint32Array, to: Uint32Array, at: number): void {
  const low = ends[place * 2]! - starts[place * 2]!;
  const high = ends[place * 2 + 1]! - starts[place * 2 + 1]! - (low < 0 ? 1 : 0);
  to[at * 2] = high < 0 ? 0 : low;
  to[at * 2 + 1] = high < 0 ? 0 : high;
}
