/**
 * Copies into the pinned tables the rows that a pin keeps. Copying again replaces the copies, and adds rows that have
 * arrived since.
 */

import { max, min } from '../../../daemon/base/bigints.ts';
import type { Connection } from '../connection/connection.ts';
import { readSingleRow, readTypedRows } from '../connection/rows.ts';
import { and, columns, identifier, list, or, type Sql, sql, text } from '../statements/sql.ts';
import { nameDistributedTable } from '../tables/ddl.ts';
import { buildTimeRangeSql } from '../tables/event_times.ts';
import { BUCKET_NS_DEFAULT, buildTables, TRACE_ID, TRANSACTION_ID } from '../tables/schema.ts';
import { type FleetPin, PINNED, writePin } from './pins.ts';

export interface CopiedFrom {
  bucketNs: bigint;
  /** Whether to copy rows of all shards. All copies are stored in one shard. */
  isCluster: boolean;
}

type PinnedTable = keyof typeof PINNED;

interface PinCopy {
  into: PinnedTable;
  where: Sql;
}

const TIMEOUT_MS = 300_000;
const NO_TRACE = '0'.repeat(32);
/** Copies the rows of a pin. Throws a ServerError. */
export async function copyPinned(connection: Connection, from: CopiedFrom, pin: FleetPin): Promise<void> {
  const known = await readKnownPin(connection, from, pin);
  if (!known) return;
  const { nodes, endNs } = known;
  if (endNs > pin.endNs || nodes.some((node) => !pin.nodes.includes(node))) await writePin(connection, known);
  for (const { into, where } of buildCopies(from, known)) {
    const copied = columns(listStoredColumns(PINNED[into]));
    await connection.run(
      sql`INSERT INTO ${identifier(into)} (pin, ${copied})
SELECT toUInt64(${pin.pin}) AS pin, ${copied} FROM ${buildSourceSql(from, into)} WHERE ${where}`,
      { timeoutMs: TIMEOUT_MS },
    );
  }
}

/** Counts the events that `copyPinned` would copy. Throws a ServerError. */
export async function countPinned(connection: Connection, from: CopiedFrom, pin: FleetPin): Promise<bigint> {
  const known = await readKnownPin(connection, from, pin);
  const wheres = known ? buildCopies(from, known).filter(({ into }) => into === 'pinned_event') : [];
  let count = 0n;
  for (const { into, where } of wheres) {
    const statement = sql`SELECT toUInt64(count()) AS events FROM ${buildSourceSql(from, into)} WHERE ${where}`;
    count += (await readSingleRow(connection, statement, { events: 'number' })).events;
  }
  return count;
}

interface KnownPin extends FleetPin {
  /** Start of the transaction. It precedes the pin's `startNs` if earlier events have arrived since. */
  firstNs: bigint;
  owners: readonly string[];
  traces: readonly string[];
}

/**
 * Returns the pin, extended by the transaction's rows that have arrived since; undefined if the transaction has no
 * rows.
 */
async function readKnownPin(connection: Connection, from: CopiedFrom, pin: FleetPin): Promise<KnownPin | undefined> {
  const statement = sql`SELECT node, owners, t_min, t_max, trace_id FROM ${buildSourceSql(from, 'pinned_by_id')}
WHERE kind = ${TRANSACTION_ID} AND id = ${text(pin.transactionId)}`;
  const shape = { node: 'text', owners: 'texts', t_min: 'number', t_max: 'number', trace_id: 'id' } as const;
  const rows = await readTypedRows(connection, statement, shape);
  if (rows.length === 0) return undefined;
  const collectDistinct = (
    listTexts: (row: (typeof rows)[number]) => readonly string[],
    more: readonly string[] = [],
  ) => [...new Set([...more, ...rows.flatMap(listTexts)])];
  return {
    ...pin,
    nodes: collectDistinct(({ node }) => [node], pin.nodes),
    endNs: rows.map((row) => row.t_max).reduce(max, pin.endNs),
    firstNs: rows.map((row) => row.t_min).reduce(min, pin.startNs),
    owners: collectDistinct(({ owners }) => owners),
    traces: collectDistinct((row) => (row.trace_id === NO_TRACE ? [] : [row.trace_id])),
  };
}

function buildCopies(
  { bucketNs }: CopiedFrom,
  { fromNs, startNs, firstNs, endNs, owners, ...known }: KnownPin,
): PinCopy[] {
  const id = text(known.transactionId);
  const before = and([
    buildTimeRangeSql(bucketNs, { firstNs: fromNs, lastNs: startNs - 1n }),
    sql`node IN (${list(known.nodes.map(text))})`,
  ]);
  const own = and([
    buildTimeRangeSql(bucketNs, { firstNs, lastNs: endNs }),
    ...(owners.length > 0 ? [sql`owner IN (${list(owners.map(text))})`] : []),
    sql`(transaction_id = ${id} OR has(origin_transactions, ${id}))`,
  ]);
  const ids = [
    sql`(kind = ${TRANSACTION_ID} AND id = ${id})`,
    ...known.traces.map(
      (trace) => sql`(kind = ${TRACE_ID} AND id = ${text(trace)} AND t_max >= ${firstNs} AND t_min <= ${endNs})`,
    ),
  ];
  return [
    ...(fromNs < startNs ? [{ into: 'pinned_event', where: before } as const] : []),
    { into: 'pinned_event', where: own },
    { into: 'pinned_by_id', where: or(ids) },
    { into: 'pinned_transaction', where: and([sql`t_min >= ${firstNs}`, sql`t_min <= ${endNs}`, sql`id = ${id}`]) },
  ];
}

function buildSourceSql({ isCluster }: CopiedFrom, into: PinnedTable): Sql {
  return identifier(isCluster ? nameDistributedTable(PINNED[into]) : PINNED[into]);
}

/** Lists the columns that the server does not compute itself. */
function listStoredColumns(name: string): string[] {
  const table = buildTables(BUCKET_NS_DEFAULT).find((one) => one.name === name)!;
  return table.columns.filter(({ computed }) => !computed).map((column) => column.name);
}
