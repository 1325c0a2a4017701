/**
 * Pins of a fleet: one row for each pin, and copies of the rows that the pin keeps. Retention does not drop these
 * copies.
 */
import { createHash } from 'node:crypto';
import type { Connection } from '../connection/connection.ts';
import { readTypedRows } from '../connection/rows.ts';
import { identifier, list, type Sql, sql, text } from '../statements/sql.ts';
import { dropPartition, nameDistributedTable } from '../tables/ddl.ts';

export interface FleetPin {
  pin: bigint;
  transactionId: string;
  /** The nodes that the transaction ran on. */
  nodes: readonly string[];
  /** Start of the period before the transaction. From `fromNs` to `startNs`, all events of the nodes are kept. */
  fromNs: bigint;
  /** Start of the transaction. From this time on, only the transaction's events are kept. */
  startNs: bigint;
  /** Start of the transaction's last event that is kept. */
  endNs: bigint;
  pinnedNs: bigint;
}

/** Tables with the copied rows, and the tables that these rows were copied from. */
export const PINNED = { pinned_event: 'event', pinned_by_id: 'by_id', pinned_transaction: 'transaction' } as const;

const TIMEOUT_MS = 300_000;

/**
 * Returns the number of a transaction's pin. It is a hash of the id, so pinning a transaction again yields the same
 * pin.
 */
export function computePinNumber(transactionId: string): bigint {
  return createHash('sha256').update(transactionId).digest().readBigUInt64BE();
}

/**
 * Returns all pins, the oldest first, or only the pin of `transactionId`. A pin may have several rows, because it gets
 * a new row when more of its transaction becomes known; they are merged.
 */
export async function readPins(
  connection: Connection,
  { isCluster, transactionId }: { isCluster: boolean; transactionId?: string | undefined },
): Promise<FleetPin[]> {
  const own = transactionId === undefined ? sql`1` : sql`pin = ${computePinNumber(transactionId)}`;
  const statement = sql`SELECT pin, any(transaction_id) AS id, groupUniqArrayArray(nodes) AS on_nodes,
  min(from_ns) AS first, min(start_ns) AS start, max(end_ns) AS last, min(pinned_ns) AS pinned
FROM ${identifier(isCluster ? nameDistributedTable('pin') : 'pin')} WHERE ${own} GROUP BY pin ORDER BY pinned, id`;
  const shape = {
    pin: 'number',
    id: 'text',
    on_nodes: 'texts',
    first: 'number',
    start: 'number',
    last: 'number',
    pinned: 'number',
  } as const;
  return (await readTypedRows(connection, statement, shape)).map((row) => ({
    pin: row.pin,
    transactionId: row.id,
    nodes: [...row.on_nodes].sort(),
    fromNs: row.first,
    startNs: row.start,
    endNs: row.last,
    pinnedNs: row.pinned,
  }));
}

/** Adds a row for a pin. Throws a ServerError. */
export async function writePin(connection: Connection, own: FleetPin): Promise<void> {
  const values: Sql[] = [
    sql`toUInt64(${own.pin})`,
    text(own.transactionId),
    sql`[${list(own.nodes.map(text))}]`,
    ...[own.fromNs, own.startNs, own.endNs, own.pinnedNs].map((time) => sql`toUInt64(${time})`),
  ];
  await connection.run(
    sql`INSERT INTO pin (pin, transaction_id, nodes, from_ns, start_ns, end_ns, pinned_ns) SELECT ${list(values)}`,
    { timeoutMs: TIMEOUT_MS },
  );
}

/**
 * Drops a pin and its copies. The row of the pin is dropped last, so that an interrupted call can be repeated. Throws a
 * ServerError.
 */
export async function dropPin(connection: Connection, pin: bigint): Promise<void> {
  for (const table of [...Object.keys(PINNED), 'pin'])
    await connection.run(dropPartition(table, pin), { timeoutMs: TIMEOUT_MS });
}
