/**
 * Creates the tables of a fleet, and adds the tables and columns of a newer kreplay. Both may be repeated. Nothing is
 * removed or rewritten.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../process/errors.ts';
import { type Connection, connect } from '../connection/connection.ts';
import { ServerError } from '../connection/server_error.ts';
import type { ConnectionSettings } from '../connection/settings.ts';
import { formatTypeName } from '../native/types.ts';
import { addColumn, createDatabase, createTable, nameDistributedTable, type TablePlace } from './ddl.ts';
import { type Found, type FoundTable, readDatabaseState } from './found.ts';
import { chooseLayout, type TableLayout, type WantedLayout } from './layout.ts';
import { type Meta, readServerColumns, writeMeta } from './meta.ts';
import { buildTables, type FleetTable, SCHEMA_VERSION, type TableColumn } from './schema.ts';
import { chooseTableSettings, toDefaultDatabase } from './server_version.ts';

export interface Changes {
  /** Names of the added tables, and of the added columns as `table.column`. */
  added: string[];
  meta: Meta;
}

/** Time-out of a statement that changes tables. It may wait for merges and for a keeper. */
const TIMEOUT_MS = 300_000;

/** Maximum number of times that the columns are read while another replica's change may be arriving. */
const POLLS_MAX = 20;
const POLL_MS = 100;

/** Creates the missing database and tables. Throws a UserError if unrelated tables have these names. */
export async function createTables(
  settings: ConnectionSettings,
  place: TablePlace,
  { bucketNs, nowNs }: { bucketNs?: bigint | undefined; nowNs: bigint },
): Promise<Changes> {
  const connection = connect(settings);
  try {
    const found = await readDatabaseState(connection, settings.urls[0]!);
    const layout = chooseLayout([found], toWanted(place, bucketNs), place.database);
    if (!found.hasDatabase) await makeDatabase(settings, place);
    return await complete(connection, { place: { ...place, ...layout }, layout, found, nowNs });
  } finally {
    connection.close();
  }
}

/**
 * Creates the database through a connection to the default database, because the database of a connection must exist.
 */
async function makeDatabase(settings: ConnectionSettings, place: TablePlace): Promise<void> {
  const outside = connect(toDefaultDatabase(settings));
  try {
    await outside.run(createDatabase(place));
  } finally {
    outside.close();
  }
}

/**
 * Adds missing tables and columns. Throws a UserError if there are no tables yet, or if they belong to a newer kreplay.
 */
export async function upgradeTables(connection: Connection, place: TablePlace, nowNs: bigint): Promise<Changes> {
  const found = await readDatabaseState(connection, place.database);
  refuseUnmade(found, place.database);
  const layout = chooseLayout([found], toWanted(place), place.database);
  return complete(connection, { place: { ...place, ...layout }, layout, found, nowNs });
}

/** Throws a UserError if `kreplay fleet init` has not completed in this database. */
export function refuseUnmade({ draft }: Found, database: string): void {
  if (draft?.schemaVersion === undefined)
    throw new UserError(`there are no tables in ${database}, or not all: run \`kreplay fleet init\``);
}

/** Returns the requested layout, as far as the server supports it: old servers have no storage policies. */
export function toWanted({ version, cluster, storagePolicy }: TablePlace, bucketNs?: bigint): WantedLayout {
  return { bucketNs, cluster, storagePolicy: version.isCurrent ? storagePolicy : undefined };
}

interface Work {
  place: TablePlace;
  layout: TableLayout;
  found: Found;
  nowNs: bigint;
}

async function complete(connection: Connection, { place, layout, found, nowNs }: Work): Promise<Changes> {
  const [metaTable, ...tables] = buildTables(layout.bucketNs) as [FleetTable, ...FleetTable[]];
  refuseOthers([metaTable, ...tables], found.tables, place);
  const added = await completeTable(connection, place, metaTable, found);
  // The layout is written before the other tables are created, so that another attempt, concurrent or later, creates
  // them with the same layout. The version is written last, when all columns exist.
  const { draft } = found;
  const keys = ['bucketNs', 'cluster', 'storagePolicy'] as const;
  if (keys.some((key) => layout[key] !== draft?.[key])) await writeMeta(connection, layout, nowNs);
  for (const table of tables) added.push(...(await completeTable(connection, place, table, found)));
  const meta = { ...layout, schemaVersion: SCHEMA_VERSION };
  if (draft?.schemaVersion !== SCHEMA_VERSION) await writeMeta(connection, { schemaVersion: SCHEMA_VERSION }, nowNs);
  return { added, meta };
}

/** Creates the table or adds its missing columns. Returns the names of the added tables and columns. */
async function completeTable(
  connection: Connection,
  place: TablePlace,
  table: FleetTable,
  found: Found,
): Promise<string[]> {
  const options = { settings: chooseTableSettings(place.version), timeoutMs: TIMEOUT_MS };
  for (const statement of createTable(place, table)) await connection.run(statement, options);
  const names = place.cluster === undefined ? [table.name] : [table.name, nameDistributedTable(table.name)];
  const added: string[] = [];
  for (const name of names) {
    const columns = found.tables.get(name)?.columns;
    if (!columns) added.push(name);
    for (const column of columns ? table.columns.filter((one) => !columns.has(one.name)) : []) {
      const isOurs = await addOnce(connection, name, column, () =>
        connection.run(addColumn(place, name, column), options),
      );
      if (isOurs) added.push(`${name}.${column.name}`);
    }
  }
  return added;
}

/** Adds a column. Returns false if a replica or another kreplay has added the column at the same time. */
async function addOnce(
  connection: Connection,
  table: string,
  column: TableColumn,
  add: () => Promise<void>,
): Promise<boolean> {
  try {
    await add();
    return true;
  } catch (error) {
    if (!(error instanceof ServerError) || error.meaning === 'blocked') throw error;
    for (let polls = 1; ; polls++) {
      const found = await readServerColumns(connection);
      if (found.get(table)?.has(column.name)) return false;
      if (polls === POLLS_MAX) throw error;
      await sleep(POLL_MS);
    }
  }
}

/** Throws a UserError for a column of an unexpected type, because kreplay must not change such a table. */
function refuseOthers(
  tables: readonly FleetTable[],
  found: ReadonlyMap<string, FoundTable>,
  { database }: TablePlace,
): void {
  for (const { name, columns } of tables) {
    const existing = found.get(name);
    for (const column of existing ? columns : []) {
      const type = existing!.columns.get(column.name)?.type;
      // A newer server appends the time zone to DateTime.
      if (type !== undefined && type.replace(/^DateTime\(.*\)$/, 'DateTime') !== formatTypeName(column.type))
        throw new UserError(
          `${database}.${name}.${column.name} is ${type}, not ${formatTypeName(column.type)}: the table is not of kreplay, choose another database`,
        );
    }
  }
}
