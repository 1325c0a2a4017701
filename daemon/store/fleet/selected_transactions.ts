/**
 * Selects transactions from the table `transaction`. Each segment has a row for each of its transactions, and all rows
 * with the same id belong to one transaction. Rows up to an hour before and after the filter's time are read too. Thus
 * the start and the duration are correct for transactions that extend beyond the filter's time.
 */
import type { NativeBlock } from '../../../agent/clickhouse/native/decode.ts';
import { decodeText } from '../../../agent/clickhouse/native/texts.ts';
import { and, integer, list, or, type Sql, sql, text, unionAll } from '../../../agent/clickhouse/statements/sql.ts';
import { toWords } from '../../../agent/recording/words64.ts';
import { I64_MAX, U64_MAX } from '../../base/bigints.ts';
import type { ChosenFilter, TransactionReach, TransactionRows } from '../store.ts';
import { readNumberColumn, readTextColumn, readTextListColumn, selectValues } from './answer_blocks.ts';
import { dropEmptyNames } from './event_condition.ts';
import { chooseTableSql, type Fleet, readRows } from './fleet.ts';

const HOUR_NS = 3_600_000_000_000n;
/** Maximum time in a recording. Recordings store times as signed 64-bit numbers. */
const STORED_MAX = I64_MAX;
const WORD = 2 ** 32;
/** Number of rows after which other work can run. */
const CHUNK_ROWS = 8192;

/** Optional columns of a selection, besides hash, started, lasted and has_failed. */
interface Selected {
  /** Adds whole_id. This doubles the time of the statement. */
  withIds?: boolean;
  /** Adds on_nodes. */
  withNodes?: boolean;
}

/**
 * Builds a statement that groups rows by the hash of the transaction's id, as the tables of recordings do; undefined if
 * no transaction can match. Aliases differ from column names, because the aggregate functions must read the columns.
 */
export async function buildSelectionSql(
  fleet: Fleet,
  filter: ChosenFilter,
  { withIds = false, withNodes = false }: Selected,
): Promise<Sql | undefined> {
  const { fromNs = 0n, toNs = U64_MAX + 1n, minDurationNs = 0n, maxDurationNs = U64_MAX } = filter;
  const { hasError, nodes, services, excluded, idPart } = filter;
  const isImpossible =
    [fromNs >= toNs, toNs <= 0n, minDurationNs > maxDurationNs, minDurationNs > U64_MAX].some(Boolean) ||
    nodes?.length === 0 ||
    (services && dropEmptyNames(services).length === 0);
  if (isImpossible) return undefined;
  const having = [
    ...(fromNs > 0n ? [sql`started >= ${fromNs}`] : []),
    ...(toNs <= U64_MAX ? [sql`started < ${toNs}`] : []),
    ...(minDurationNs > 0n ? [sql`lasted >= ${minDurationNs}`] : []),
    ...(maxDurationNs < U64_MAX ? [sql`lasted <= ${maxDurationNs}`] : []),
    ...(hasError !== undefined ? [sql`has_failed = ${hasError ? 1 : 0}`] : []),
    ...(nodes ? [hasOne('on_nodes', nodes)] : []),
    ...(excluded?.nodes?.length ? [sql`NOT ${hasOne('on_nodes', excluded.nodes)}`] : []),
    ...(dropEmptyNames(excluded?.services ?? []).length > 0
      ? [sql`NOT ${hasOne('of_services', dropEmptyNames(excluded!.services!))}`]
      : []),
  ];
  const within = and([
    ...(idPart !== undefined ? [hasIdPart(idPart)] : []),
    ...(fromNs > HOUR_NS ? [sql`t_min >= ${fromNs - HOUR_NS}`] : []),
    ...(toNs <= U64_MAX - HOUR_NS ? [sql`t_min < ${toNs + HOUR_NS}`] : []),
  ]);
  const isDropped = (fromNs > HOUR_NS ? fromNs - HOUR_NS : 0n) < (await fleet.oldestNs());
  const tables = isDropped ? ['transaction', 'pinned_transaction'] : ['transaction'];
  const ofServices = services
    ? [or(tables.map((table) => buildServiceHashesSql(fleet, table, dropEmptyNames(services), within)))]
    : [];
  const more = [
    ...(withIds ? [sql`any(id) AS whole_id`] : []),
    ...(withNodes || nodes || excluded?.nodes ? [sql`groupUniqArray(CAST(node AS String)) AS on_nodes`] : []),
    ...(excluded?.services ? [sql`groupUniqArrayArray(services) AS of_services`] : []),
  ];
  // Duplicate rows are not removed, because they do not change these aggregates.
  const rows = tables.map(
    (
      table,
    ) => sql`SELECT id, text_hash, t_min, own_min, end_max, errors, node, services FROM ${chooseTableSql(fleet, table)}
WHERE service = '' AND ${and([within, ...ofServices])}`,
  );
  const only =
    tables.length === 1
      ? sql`${chooseTableSql(fleet, 'transaction')} WHERE service = '' AND ${and([within, ...ofServices])}`
      : sql`(${unionAll(rows)})`;
  return sql`SELECT ${list([...SUMS, ...more])} FROM ${only} GROUP BY text_hash HAVING ${and(having)}`;
}

/**
 * Start of the first own event. Only rows with own events count. Rows of an older sender lack `own_min`, so the start
 * of their first event counts.
 */
const OWN_START = sql`minIf(if(own_min = 0, t_min, own_min), end_max > 0)`;
/** A transaction without own events began with its first event. */
const STARTED = sql`if(max(end_max) > 0, ${OWN_START}, min(t_min))`;

const SUMS: readonly Sql[] = [
  sql`text_hash AS hash`,
  sql`${STARTED} AS started`,
  sql`toUInt64(greatest(least(max(end_max), ${integer('UInt64', STORED_MAX)}), ${STARTED}) - ${STARTED}) AS lasted`,
  sql`toUInt8(max(errors) > 0) AS has_failed`,
];

function hasOne(names: 'on_nodes' | 'of_services', texts: readonly string[]): Sql {
  const column = names === 'on_nodes' ? sql`on_nodes` : sql`of_services`;
  return sql`hasAny(${column}, [${list([...new Set(texts)].map(text))}])`;
}

/**
 * Builds the condition that the id contains `part`. As in a recording, `lower` ignores only the case of the letters a
 * to z.
 */
function hasIdPart(part: string): Sql {
  return sql`position(lower(id), lower(${text(part)})) > 0`;
}

/**
 * Builds the condition for transactions of these services. The condition is fast, because the table's key begins with
 * the service.
 */
function buildServiceHashesSql(fleet: Fleet, table: string, services: readonly string[], within: Sql): Sql {
  const hashes = sql`SELECT text_hash FROM ${chooseTableSql(fleet, table)}
WHERE service IN (${list([...new Set(services)].map(text))}) AND ${within}`;
  return fleet.isCluster ? sql`text_hash GLOBAL IN (${hashes})` : sql`text_hash IN (${hashes})`;
}

/** Reads the reach of all selected transactions; null if there are none. */
export async function readReach(fleet: Fleet, selected: Sql): Promise<TransactionReach | null> {
  const statement = sql`SELECT toUInt64(count()) AS transactions, min(started) AS first_ns, max(started + lasted) AS last_ns,
  groupUniqArrayArray(on_nodes) AS nodes FROM (${selected})`;
  const shape = { transactions: 'number', first_ns: 'number', last_ns: 'number', nodes: 'texts' } as const;
  const [row] = await readRows(fleet, statement, shape);
  if (!row || row.transactions === 0n) return null;
  // `toNs` is exclusive, so 1 ns is added: a lost event may have begun exactly when the last known event ended.
  return { fromNs: row.first_ns, toNs: row.last_ns + 1n, nodes: [...row.nodes].sort() };
}

/** Transactions as columns, and the ids and node names for lists. */
export interface SelectedRows extends TransactionRows {
  /** Call this method only if ids were requested. */
  readId(row: number): string;
  readNodeNames(row: number): string[];
}

/** Yields all transactions that the filter selects, in no particular order. Blocks may be empty. */
export async function* readSelectedTransactions(
  fleet: Fleet,
  filter: ChosenFilter,
  { withIds = false } = {},
): AsyncGenerator<SelectedRows, void> {
  const selected = await buildSelectionSql(fleet, filter, { withIds, withNodes: true });
  if (!selected) return;
  for await (const decoded of fleet.connection.select(selected))
    for (let from = 0; from < Math.max(1, decoded.rowCount); from += CHUNK_ROWS)
      yield readSelectedRows(decoded, from, filter.hashes);
}

/**
 * Reads a chunk of rows that begins at row `from`. If `wanted` is given, only transactions with these hashes are
 * included.
 */
function readSelectedRows(decoded: NativeBlock, from: number, wanted: ReadonlySet<number> | undefined): SelectedRows {
  const length = Math.min(CHUNK_ROWS, decoded.rowCount - from);
  const words = toWords(readNumberColumn(decoded, 'hash', BigUint64Array)).subarray(from * 2);
  const all = Float64Array.from({ length }, (_, row) => words[row * 2 + 1]! * WORD + words[row * 2]!);
  const rows = Uint32Array.from({ length }, (_, row) => from + row).filter(
    (row) => !wanted || wanted.has(all[row - from]!),
  );
  const nodes = readTextListColumn(decoded, 'on_nodes');
  return {
    length: rows.length,
    hashes: all.filter((hash) => !wanted || wanted.has(hash)),
    startsNs: selectValues(readNumberColumn(decoded, 'started', BigUint64Array) as BigUint64Array<ArrayBuffer>, rows),
    durationsNs: selectValues(readNumberColumn(decoded, 'lasted', BigUint64Array) as BigUint64Array<ArrayBuffer>, rows),
    failed: selectValues(readNumberColumn(decoded, 'has_failed', Uint8Array) as Uint8Array<ArrayBuffer>, rows),
    readId: (row) => decodeText(readTextColumn(decoded, 'whole_id'), rows[row]!),
    readNodeNames: (row) => readTexts(nodes, rows[row]!),
  };
}

function readTexts({ ends, items }: ReturnType<typeof readTextListColumn>, row: number): string[] {
  const from = ends[row - 1] ?? 0;
  return Array.from({ length: ends[row]! - from }, (_, i) => decodeText(items, from + i));
}

/** Creates a finder that returns the reach of all transactions added to it. */
export function createReachFinder() {
  const nodes = new Set<string>();
  let [first, last, isAny] = [U64_MAX, 0n, false];
  return {
    add({ length, startsNs, durationsNs, readNodeNames }: SelectedRows): void {
      for (let row = 0; row < length; row++) {
        const start = startsNs[row]!;
        const end = startsNs[row]! + durationsNs[row]!;
        if (start < first) first = start;
        if (end > last) last = end;
        for (const node of readNodeNames(row)) nodes.add(node);
        isAny = true;
      }
    },
    // `toNs` is exclusive, so 1 ns is added: a lost event may have begun exactly when the last known event ended.
    reach: (): TransactionReach | null => (isAny ? { fromNs: first, toNs: last + 1n, nodes: [...nodes].sort() } : null),
  };
}
