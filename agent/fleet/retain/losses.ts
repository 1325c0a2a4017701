/**
 * Counts the events that retention drops from a fleet, as one loss for each node. The counts come from the table
 * `stat`, which has sums by minute, because a segment may continue into an hour that is kept.
 */
import { createHash } from 'node:crypto';
import type { Connection } from '../../clickhouse/connection/connection.ts';
import { type RowOf, readTypedRows } from '../../clickhouse/connection/rows.ts';
import { createBlockEncoder } from '../../clickhouse/native/encode.ts';
import { createTextTable } from '../../clickhouse/native/texts.ts';
import { parseType } from '../../clickhouse/native/types.ts';
import { sql } from '../../clickhouse/statements/sql.ts';

export interface Dropped {
  node: string;
  fromNs: bigint;
  /** The last moment of the loss. */
  toNs: bigint;
  count: bigint;
}

const MINUTE_NS = 60_000_000_000n;
const MINUTES_OF_HOUR = 60n;
const DROPPED = { node: 'text', first: 'number', last: 'number', lost: 'number' } as const;

/**
 * Returns two losses for each node: `known` is already recorded, and `added` is caused by dropping the hours before
 * `firstHour`. Throws a ServerError.
 */
export async function readDropped(
  connection: Connection,
  firstHour: bigint,
): Promise<{ known: Dropped[]; added: Dropped[] }> {
  const known = await readTypedRows(
    connection,
    sql`SELECT node, min(from_ns) AS first, max(to_ns) AS last, max(count) AS lost FROM loss
WHERE recording = 0 AND cause = 'retention' GROUP BY node`,
    DROPPED,
  );
  const added = await readTypedRows(
    connection,
    sql`SELECT node, toUInt64(min(minute)) * ${MINUTE_NS} AS first, toUInt64(max(minute) + 1) * ${MINUTE_NS} - 1 AS last,
  toUInt64(sum(n)) AS lost FROM stat FINAL WHERE minute < ${firstHour * MINUTES_OF_HOUR} GROUP BY node`,
    DROPPED,
  );
  return { known: known.map(toDropped), added: added.map(toDropped) };
}

function toDropped({ node, first, last, lost }: RowOf<typeof DROPPED>): Dropped {
  return { node, fromNs: first, toNs: last, count: lost };
}

/** Merges the losses of each node into one loss. */
export function mergeDropped(some: readonly Dropped[]): Dropped[] {
  const byNode = new Map<string, Dropped>();
  for (const one of some) {
    const before = byNode.get(one.node) ?? { ...one, count: 0n };
    byNode.set(one.node, {
      node: one.node,
      fromNs: one.fromNs < before.fromNs ? one.fromNs : before.fromNs,
      toNs: one.toNs > before.toNs ? one.toNs : before.toNs,
      count: before.count + one.count,
    });
  }
  return [...byNode.values()];
}

/**
 * Replaces the losses of these nodes. All rows are in one partition, so the insert writes either all rows or none.
 * Throws a ServerError.
 */
export async function writeDropped(connection: Connection, dropped: readonly Dropped[]): Promise<void> {
  if (dropped.length === 0) return;
  const buildNumberColumn = (name: string, getNumber: (one: Dropped) => bigint) => ({
    name,
    type: parseType('UInt64'),
    values: BigUint64Array.from(dropped, getNumber),
  });
  const buildWordColumn = (name: string, getWord: (one: Dropped) => string) => ({
    name,
    type: parseType('LowCardinality(String)'),
    values: buildTextColumn(dropped.map(getWord)),
  });
  const columns = [
    buildNumberColumn('recording', () => 0n),
    buildNumberColumn('loss_id', ({ node }) => createHash('sha256').update(node).digest().readBigUInt64BE()),
    buildWordColumn('node', ({ node }) => node),
    buildWordColumn('cause', () => 'retention'),
    buildWordColumn('event_type', () => ''),
    buildNumberColumn('count', ({ count }) => count),
    buildNumberColumn('from_ns', ({ fromNs }) => fromNs),
    buildNumberColumn('to_ns', ({ toNs }) => toNs),
  ];
  const block = createBlockEncoder().encode(columns, dropped.length);
  await connection.insert({ table: 'loss', columns: columns.map(({ name }) => name) }, () => [block]);
}

/** Encodes each text as an index into a table of texts, whose first text is empty. */
function buildTextColumn(texts: readonly string[]) {
  const places = new Map([['', 0]]);
  for (const one of texts) if (!places.has(one)) places.set(one, places.size);
  return { table: createTextTable([...places.keys()]), ids: Uint32Array.from(texts, (one) => places.get(one)!) };
}
