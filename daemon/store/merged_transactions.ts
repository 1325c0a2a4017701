/** Lists of transactions: tables in memory say which, the recordings what they were. */
import { withFailuresOf } from './failures.ts';
import { joinParts, type Part } from './merged_transaction.ts';
import type { OpenRecording } from './recording_files.ts';
import type { TransactionPage, TransactionSummary, TransactionsRequest } from './store.ts';
import { type Chosen, chooseTransactions } from './transaction_choice.ts';
import { groupTransactions, type TransactionGroups, tableOf } from './transaction_groups.ts';

/** Summaries read in a step. */
const READ_A_STEP = 64;

export interface TransactionLists {
  /** One at a time: the tables change as they are brought up to date. */
  list(open: readonly OpenRecording[], request: TransactionsRequest): Generator<void, TransactionPage>;
}

export function createTransactionLists(): TransactionLists {
  /** Of the tables as they were then. */
  let grouped: { versions: string; groups: TransactionGroups } | undefined;

  function* groupsOf(open: readonly OpenRecording[]): Generator<void, TransactionGroups> {
    const versions = open.map(({ file, reader }) => `${file.identity} ${reader.transactionIndex.version()}`).join();
    const tables = open.map(({ reader }) => reader.transactionIndex.columns());
    // A file that was closed and opened again counts from the start.
    const isSame = grouped?.versions === versions && grouped.groups.tables.every((table, i) => table === tables[i]);
    if (grouped && isSame) return grouped.groups;
    const groups = yield* groupTransactions(tables);
    grouped = { versions, groups };
    return groups;
  }

  return {
    *list(open, request) {
      for (const { file, reader } of open) while (!withFailuresOf(file, () => reader.transactionIndex.step())) yield;
      for (;;) {
        const groups = yield* groupsOf(open);
        // One more than asked for tells whether there is a next page.
        const chosen = yield* chooseTransactions(open, groups, { ...request, limit: request.limit + 1 });
        const shown = chosen.slice(0, request.limit);
        const transactions = yield* readChosen(open, groups, shown);
        // Retention was faster: what it has removed is not in the tables any more.
        if (!transactions) continue;
        const last = chosen.length > shown.length ? shown.at(-1) : undefined;
        const transactionId = transactions.at(-1)?.transactionId;
        return {
          transactions,
          next: last && transactionId !== undefined ? { value: last.value, transactionId } : null,
        };
      }
    },
  };
}

/** Undefined when one of them is gone. */
function* readChosen(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  chosen: readonly Chosen[],
): Generator<void, TransactionSummary[] | undefined> {
  const read: TransactionSummary[] = [];
  let allThere = true;
  for (const [i, { rows }] of chosen.entries()) {
    if (i % READ_A_STEP === READ_A_STEP - 1) yield;
    const byTable = Map.groupBy(rows, (row) => tableOf(groups, row));
    const parts = [...byTable].flatMap(([table, own]) => partOf(open[table]!, own, groups.starts[table]!));
    if (parts.length === byTable.size) read.push(joinParts(parts));
    else allThere = false;
  }
  return allThere ? read : undefined;
}

function partOf(recording: OpenRecording, rows: readonly number[], start: number): Part[] {
  const { file, reader } = recording;
  const { columns, setGone } = reader.transactionIndex;
  const places = rows.map((row) => row - start);
  const keys = places.map((place) => columns().keys[place]!);
  const summary = withFailuresOf(file, () => reader.transactionOfKeys(keys));
  if (summary) return [{ recording, summary }];
  for (const place of places) setGone(place);
  return [];
}
