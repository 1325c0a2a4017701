/** Copies what has come for pins since they were made, before its hours are dropped. */
import type { Connection } from '../../clickhouse/connection/connection.ts';
import { rowsOf } from '../../clickhouse/connection/rows.ts';
import { type CopiedFrom, copyPinned } from '../../clickhouse/pins/pin_copies.ts';
import { type FleetPin, readPins } from '../../clickhouse/pins/pins.ts';
import { identifier, list, sql, text } from '../../clickhouse/statements/sql.ts';
import { distributedName } from '../../clickhouse/tables/ddl.ts';

const HOUR_NS = 3_600_000_000_000n;
/** Ids in one statement: a server takes 256 KiB, in which each byte of an id is two digits. */
const IDS_MAX = 100;

/** `hours` will be dropped, on any shard; the pins are those of this one. Throws a ServerError. */
export async function copyLate(connection: Connection, from: CopiedFrom, hours: readonly bigint[]): Promise<number> {
  const pins = await readPins(connection, { isCluster: false });
  let copied = 0;
  for (let i = 0; i < pins.length; i += IDS_MAX) {
    const some = pins.slice(i, i + IDS_MAX);
    const ends = await endsOf(connection, from, some);
    for (const pin of some) {
      const endNs = ends.get(pin.transactionId) ?? 0n;
      const [first, last] = [pin.fromNs / HOUR_NS, (endNs > pin.endNs ? endNs : pin.endNs) / HOUR_NS];
      if (!hours.some((hour) => hour >= first && hour <= last)) continue;
      await copyPinned(connection, from, pin);
      copied++;
    }
  }
  return copied;
}

/** When the last event of each transaction began, as far as it has come. */
async function endsOf(
  connection: Connection,
  { isCluster }: CopiedFrom,
  pins: readonly FleetPin[],
): Promise<Map<string, bigint>> {
  const table = identifier(isCluster ? distributedName('by_id') : 'by_id');
  const ids = list(pins.map(({ transactionId }) => text(transactionId)));
  const statement = sql`SELECT id, max(t_max) AS last FROM ${table} WHERE kind = 1 AND id IN (${ids}) GROUP BY id`;
  const rows = await rowsOf(connection, statement, { id: 'text', last: 'number' });
  return new Map(rows.map(({ id, last }) => [id, last]));
}
