/** Makes the tables, and adds what a newer kreplay has. Both may be repeated; nothing is ever removed or rewritten. */

import { UserError } from '../../process/errors.ts';
import { type Connection, connect } from '../connection/connection.ts';
import type { ConnectionSettings } from '../connection/settings.ts';
import { nameOf } from '../native/types.ts';
import { sql } from '../statements/sql.ts';
import { addColumn, createDatabase, createTable, distributedName, type Place } from './ddl.ts';
import { columnsInServer, type Meta, readMeta, writeMeta } from './meta.ts';
import { BUCKET_NS_DEFAULT, SCHEMA_VERSION, type Table, tablesOf } from './schema.ts';
import { inDefault, tableSettings } from './server_version.ts';

export interface Changes {
  /** Tables and `table.column`s that were added. */
  added: string[];
  meta: Meta;
}

/** A statement on tables may wait for merges and for a keeper. */
const TIMEOUT_MS = 300_000;

/** Makes database and tables where they are missing. Throws a UserError if there are others of that name. */
export async function createTables(
  settings: ConnectionSettings,
  place: Place,
  { bucketNs, nowNs }: { bucketNs?: bigint | undefined; nowNs: bigint },
): Promise<Changes> {
  await makeDatabase(settings, place);
  const connection = connect(settings);
  try {
    const before = await readMeta(connection);
    if (before && bucketNs !== undefined && before.bucketNs !== bucketNs)
      throw new UserError(
        `the tables of ${place.database} have buckets of ${before.bucketNs} ns, which cannot change: leave out --bucket`,
      );
    refuseNewer(before, place);
    return await complete(
      connection,
      place,
      before ?? { schemaVersion: SCHEMA_VERSION, bucketNs: bucketNs ?? BUCKET_NS_DEFAULT },
      nowNs,
    );
  } finally {
    connection.close();
  }
}

/** The database of a connection must exist, so another one is used when it does not. */
async function makeDatabase(settings: ConnectionSettings, place: Place): Promise<void> {
  const inside = connect(settings);
  const outside = connect(inDefault(settings));
  try {
    const isThere = await inside.run(sql`SELECT 1`).then(
      () => true,
      () => false,
    );
    if (!isThere) await outside.run(createDatabase(place));
  } finally {
    inside.close();
    outside.close();
  }
}

/** Adds tables and columns. Throws a UserError if there is nothing to add to, or a newer kreplay was here. */
export async function upgradeTables(connection: Connection, place: Place, nowNs: bigint): Promise<Changes> {
  const before = await readMeta(connection);
  if (!before) throw new UserError(`there are no tables in ${place.database}: run \`kreplay fleet init\``);
  refuseNewer(before, place);
  return complete(connection, place, before, nowNs);
}

function refuseNewer(before: Meta | undefined, { database }: Place): void {
  if (before && before.schemaVersion > SCHEMA_VERSION)
    throw new UserError(
      `the tables of ${database} have schema ${before.schemaVersion}, this kreplay knows ${SCHEMA_VERSION}: use the newer kreplay`,
    );
}

async function complete(connection: Connection, place: Place, before: Meta, nowNs: bigint): Promise<Changes> {
  const tables = tablesOf(before.bucketNs);
  const found = await columnsInServer(connection);
  refuseOthers(tables, found, place);
  const options = { settings: tableSettings(place.version), timeoutMs: TIMEOUT_MS };
  const added: string[] = [];
  for (const table of tables) {
    for (const statement of createTable(place, table)) await connection.run(statement, options);
    const own = found.get(table.name);
    if (!own) added.push(table.name);
    for (const name of [table.name, distributedName(table.name)]) {
      const columns = found.get(name);
      if (!columns) continue;
      for (const column of table.columns.filter(({ name }) => !columns.has(name))) {
        await connection.run(addColumn(place, name, column), options);
        added.push(`${name}.${column.name}`);
      }
    }
  }
  // It comes last: tables that say what they are have all columns.
  const meta = { ...before, schemaVersion: SCHEMA_VERSION };
  if (added.includes('meta') || before.schemaVersion !== SCHEMA_VERSION || !(await readMeta(connection)))
    await writeMeta(connection, meta, nowNs);
  return { added, meta };
}

/** A column of another type is not ours to change. */
function refuseOthers(tables: readonly Table[], found: Map<string, Map<string, string>>, { database }: Place): void {
  for (const { name, columns } of tables) {
    const existing = found.get(name);
    for (const column of existing ? columns : []) {
      const type = existing!.get(column.name);
      // A newer server writes the time zone behind DateTime.
      if (type !== undefined && type.replace(/^DateTime\(.*\)$/, 'DateTime') !== nameOf(column.type))
        throw new UserError(
          `${database}.${name}.${column.name} is ${type}, not ${nameOf(column.type)}: the table is not of kreplay, choose another database`,
        );
    }
  }
}
