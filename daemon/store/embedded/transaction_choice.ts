/** Selects the first transactions in a sort order. It searches the tables in memory, and reads no recording. */

import { hashText53 } from '../../../agent/recording/format/text_hash.ts';
import type { ChosenRequest, TransactionKey, TransactionReach } from '../store.ts';
import type { IdTest } from './id_part.ts';
import type { OpenRecording } from './recording_files.ts';
import { collectChainRows, findTableIndex, isAlone, type TransactionGroups } from './transaction_groups.ts';
import { findReach } from './transaction_reach.ts';

const ROWS_A_STEP = 8192;
/** Number of candidates beyond the limit at which all but the best are dropped, because memory is limited. */
const CHOSEN_EXTRA_MAX = 4096;

/** A chosen transaction. If a recording has copies, `rows` contains the rows of only one copy. */
export interface ChosenTransaction {
  rows: number[];
  value: bigint;
  hash: number;
}

/** The data of a transaction that the tables in memory contain. */
export interface KnownTransaction {
  rows: number[];
  firstNs: bigint;
  endNs: bigint;
  hasError: boolean;
}

interface RankedTransaction {
  value: bigint;
  hash: number;
}

/** Orders by descending value, and equal values by hash, so that the order is stable. */
function isBefore(a: RankedTransaction, b: RankedTransaction): boolean {
  return a.value > b.value || (a.value === b.value && a.hash < b.hash);
}

function toRankedTransaction({ value, transactionId }: TransactionKey): RankedTransaction {
  return { value, hash: hashText53(transactionId) };
}

export function* chooseTransactions(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  { filter, sort, limit, after }: ChosenRequest,
  isNamed: IdTest | undefined,
): Generator<void, { chosen: ChosenTransaction[]; reach: TransactionReach | null }> {
  const { fromNs, toNs, minDurationNs, maxDurationNs, hasError, hashes } = filter;
  const start = after && toRankedTransaction(after);
  const isOwned = createOwnerTest(open, groups, filter);
  const selected = findReach(open, groups);
  let chosen: ChosenTransaction[] = [];
  let last: RankedTransaction | undefined;

  function keepBest(): void {
    chosen.sort((a, b) => (isBefore(a, b) ? -1 : 1));
    chosen = chosen.slice(0, limit);
    if (chosen.length === limit) last = chosen.at(-1);
  }

  // The newest rows are last. Iterating backwards finds recent transactions first, so a list of recent transactions
  // drops few candidates.
  for (let first = groups.covered.length - 1; first >= 0; first--) {
    if (first % ROWS_A_STEP === 0) yield;
    if (groups.covered[first] === 1) continue;
    const known = isAlone(groups, first) ? readKnown(groups, first) : joinKnownRows(open, groups, first);
    if (fromNs !== undefined && known.firstNs < fromNs) continue;
    if (toNs !== undefined && known.firstNs >= toNs) continue;
    // The duration is 0 if there are only written-back events, because the transaction's caller did not wait for them.
    const durationNs = known.endNs > known.firstNs ? known.endNs - known.firstNs : 0n;
    if (minDurationNs !== undefined && durationNs < minDurationNs) continue;
    if (maxDurationNs !== undefined && durationNs > maxDurationNs) continue;
    if (hasError !== undefined && known.hasError !== hasError) continue;
    if (!isOwned(known.rows) || (isNamed && !isNamed(known.rows))) continue;
    const hash =
      groups.tables[findTableIndex(groups, first)]!.hashes[first - groups.starts[findTableIndex(groups, first)]!]!;
    if (hashes && !hashes.has(hash)) continue;
    selected.add(known.rows, known.firstNs, known.firstNs + durationNs);
    const found = { rows: known.rows, value: sort === 'slowest' ? durationNs : known.firstNs, hash };
    if ((start && !isBefore(start, found)) || (last && !isBefore(found, last))) continue;
    chosen.push(found);
    if (chosen.length >= limit + CHOSEN_EXTRA_MAX) keepBest();
  }
  keepBest();
  return { chosen, reach: selected.reach() };
}

function readKnown(groups: TransactionGroups, first: number): KnownTransaction {
  const table = findTableIndex(groups, first);
  const { firstNs, endNs, hasError } = groups.tables[table]!;
  const row = first - groups.starts[table]!;
  return { rows: [first], firstNs: firstNs[row]!, endNs: endNs[row]!, hasError: hasError[row] === 1 };
}

/** Joins the rows of a chain. If a recording has copies, only the rows of one copy count. */
export function joinKnownRows(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  first: number,
): KnownTransaction {
  const byFile = Map.groupBy(collectChainRows(groups, first), (row) => findTableIndex(groups, row));
  /**
   * The copy with the most events, for each recording. Only this copy counts: it is not known which events the copies
   * have in common, and no event must count twice.
   */
  const best = new Map<string, { rows: number[]; events: number }>();
  for (const [table, rows] of [...byFile].sort(([a], [b]) => a - b)) {
    const { eventCounts } = groups.tables[table]!;
    const events = rows.reduce((sum, row) => sum + eventCounts[row - groups.starts[table]!]!, 0);
    const { recordingId } = open[table]!;
    if (events > (best.get(recordingId)?.events ?? 0)) best.set(recordingId, { rows, events });
  }
  const rows = [...best.values()].flatMap((one) => one.rows);
  return rows.map((row) => readKnown(groups, row)).reduce(joinKnown, { ...readKnown(groups, rows[0]!), rows: [] });
}

function joinKnown(a: KnownTransaction, b: KnownTransaction): KnownTransaction {
  return {
    rows: [...a.rows, ...b.rows],
    firstNs: chooseFirstNs(a, b),
    endNs: a.endNs > b.endNs ? a.endNs : b.endNs,
    hasError: a.hasError || b.hasError,
  };
}

/**
 * Returns the start of two joined parts. If only one part has own events (`endNs` > 0), its start counts, because the
 * other part starts with later write-back.
 */
function chooseFirstNs(a: KnownTransaction, b: KnownTransaction): bigint {
  if (a.endNs > 0n !== b.endNs > 0n) return a.endNs > 0n ? a.firstNs : b.firstNs;
  return a.firstNs < b.firstNs ? a.firstNs : b.firstNs;
}

type Owners = Pick<ChosenRequest['filter'], 'services' | 'nodes' | 'excluded'>;

/**
 * Returns a test of a transaction's rows. A transaction passes if one of the nodes and one of the services took part in
 * it, but no excluded node or service.
 */
export function createOwnerTest(open: readonly OpenRecording[], groups: TransactionGroups, filter: Owners) {
  const { services, nodes, excluded } = filter;
  const isWanted = createPartTest(open, groups, services, nodes);
  const isExcluded = createPartTest(open, groups, excluded?.services, excluded?.nodes);
  return (rows: readonly number[]) =>
    (!nodes || rows.some(isWanted.onNode)) &&
    (!services || rows.some(isWanted.ofService)) &&
    !(excluded?.nodes && rows.some(isExcluded.onNode)) &&
    !(excluded?.services && rows.some(isExcluded.ofService));
}

function createPartTest(
  open: readonly OpenRecording[],
  groups: TransactionGroups,
  services: readonly string[] = [],
  nodes: readonly string[] = [],
) {
  const wanted = new Set(services);
  const isNode = open.map(({ node }) => nodes.includes(node));
  const hasService = open.map(({ reader }) =>
    reader.transactionIndex.serviceSets().map((names) => names.some((name) => wanted.has(name))),
  );
  return {
    onNode: (row: number) => isNode[findTableIndex(groups, row)]!,
    ofService: (row: number) => {
      const table = findTableIndex(groups, row);
      return hasService[table]![groups.tables[table]!.serviceSets[row - groups.starts[table]!]!]!;
    },
  };
}
