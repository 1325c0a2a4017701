/**
 * Lists transactions in pages. A statement ranks the transactions, and their summaries are read from the tables `by_id`
 * and `pinned_by_id`.
 */

import { type Sql, sql } from '../../../agent/clickhouse/statements/sql.ts';
import { hashText53 } from '../../../agent/recording/format/text_hash.ts';
import type { ChosenRequest, TransactionKey, TransactionPage, TransactionReach, TransactionSummary } from '../store.ts';
import { type Fleet, readRows } from './fleet.ts';
import { buildSelectionSql, createReachFinder, readReach, readSelectedTransactions } from './selected_transactions.ts';
import { findFleetTransactions } from './transactions_by_id.ts';

/** A transaction with the values by which a list is sorted. */
interface Ranked {
  id: string;
  value: bigint;
  hash: number;
}

/** Returns the transactions that follow `after` in the list, at most `count` of them. */
type Rank = (after: TransactionKey | undefined, count: number) => Promise<Ranked[]>;

/** Number of candidates kept beyond the limit, because some summaries may show that a transaction began too early. */
const KEPT_EXTRA_MAX = 4096;

export async function* listFleetTransactions(
  fleet: Fleet,
  request: ChosenRequest,
): AsyncGenerator<void, TransactionPage> {
  const { rank, reach: reachOfAll } = request.filter.hashes
    ? yield* rankLocally(fleet, request)
    : await rankOnServer(fleet, request);
  const { fromNs = 0n } = request.filter;
  const transactions: TransactionSummary[] = [];
  // If there is one transaction more than requested, there is a next page.
  const [reach, first] = await Promise.all([reachOfAll(), rank(request.after, request.limit + 1)]);
  let found = first;
  for (;;) {
    const shown = found.slice(0, request.limit - transactions.length);
    const summaries = await findFleetTransactions(
      fleet,
      shown.map(({ id }) => id),
    );
    yield;
    for (const { id } of shown) {
      const summary = summaries.get(id);
      // The statement does not see rows long before the filter's time, so only the summary has the true start.
      if (summary && summary.firstTimestampNs >= fromNs) transactions.push(summary);
    }
    const last = found.length > shown.length ? shown.at(-1) : undefined;
    const next = last ? { value: last.value, transactionId: last.id } : null;
    if (!next || transactions.length >= request.limit) return { transactions, reach, next };
    found = await rank(next, request.limit - transactions.length + 1);
  }
}

/** The ranking of a list, and the reach of all its transactions. */
interface Ranking {
  rank: Rank;
  reach(): Promise<TransactionReach | null>;
}

async function rankOnServer(fleet: Fleet, { filter, sort }: ChosenRequest): Promise<Ranking> {
  const selected = await buildSelectionSql(fleet, filter, { withIds: true });
  const withNodes = await buildSelectionSql(fleet, filter, { withNodes: true });
  if (!selected || !withNodes) return { rank: async () => [], reach: async () => null };
  const value = sort === 'slowest' ? sql`lasted` : sql`started`;
  return {
    reach: () => readReach(fleet, withNodes),
    async rank(after, count) {
      const statement = sql`SELECT whole_id, hash, ${value} AS value FROM (${selected})
WHERE ${after ? buildAfterSql(value, after) : sql`1`} ORDER BY value DESC, hash LIMIT ${count}`;
      const rows = await readRows(fleet, statement, { whole_id: 'text', hash: 'number', value: 'number' });
      return rows.map((row) => ({ id: row.whole_id, value: row.value, hash: Number(row.hash) }));
    },
  };
}

/** Builds the condition for transactions after a key; equal values are ordered by hash. */
function buildAfterSql(value: Sql, { value: last, transactionId }: TransactionKey): Sql {
  if (last < 0n) return sql`0`;
  return sql`(${value} < ${last} OR (${value} = ${last} AND hash > ${hashText53(transactionId)}))`;
}

/**
 * Ranks, in this process, transactions that were chosen by their events, because all their hashes may not fit into a
 * statement.
 */
async function* rankLocally(
  fleet: Fleet,
  { filter, sort, limit, after: first }: ChosenRequest,
): AsyncGenerator<void, Ranking> {
  const finder = createReachFinder();
  let ranked: Ranked[] = [];
  for await (const rows of readSelectedTransactions(fleet, filter, { withIds: true })) {
    finder.add(rows);
    for (let row = 0; row < rows.length; row++) {
      const value = (sort === 'slowest' ? rows.durationsNs : rows.startsNs)[row]!;
      const one = { id: rows.readId(row), value, hash: rows.hashes[row]! };
      if (!first || isBefore(toPlace(first), one)) ranked.push(one);
    }
    if (ranked.length > limit + KEPT_EXTRA_MAX) ranked = selectBest(ranked, limit + KEPT_EXTRA_MAX);
    yield;
  }
  ranked = selectBest(ranked, ranked.length);
  return {
    reach: async () => finder.reach(),
    rank: async (after, count) => ranked.filter((one) => !after || isBefore(toPlace(after), one)).slice(0, count),
  };
}

type RankPlace = Pick<Ranked, 'value' | 'hash'>;

function toPlace({ value, transactionId }: TransactionKey): RankPlace {
  return { value, hash: hashText53(transactionId) };
}

function isBefore(a: RankPlace, b: RankPlace): boolean {
  return a.value > b.value || (a.value === b.value && a.hash < b.hash);
}

function selectBest(ranked: readonly Ranked[], count: number): Ranked[] {
  return ranked.toSorted((a, b) => (isBefore(a, b) ? -1 : 1)).slice(0, count);
}
