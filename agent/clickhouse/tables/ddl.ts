/**
 * Builds the statements that create the tables, depending on the server's version, for a single server or a cluster.
 */
import { identifier, list, columns as namesOf, type Sql, sql, typeName, word } from '../statements/sql.ts';
import type { FleetTable, TableColumn } from './schema.ts';
import type { ServerVersion } from './server_version.ts';

export interface TablePlace {
  database: string;
  version: ServerVersion;
  /** Name of the cluster in the server's configuration. Macros in that configuration name the shard and the replica. */
  cluster?: string | undefined;
  /** Storage policy for the tables; newer servers only. */
  storagePolicy?: string | undefined;
}

export function createDatabase({ database }: TablePlace): Sql {
  return sql`CREATE DATABASE IF NOT EXISTS ${identifier(database)}`;
}

/**
 * Builds the statements that create a table. The caller runs them on every server: `ON CLUSTER` would wait for servers
 * that are down.
 */
export function createTable(place: TablePlace, table: FleetTable): Sql[] {
  const { database, version, cluster } = place;
  const name = qualifyName(database, table.name);
  const parts = table.columns.map((column) => buildColumnSql(version, column));
  const indexes = version.isCurrent ? (table.indexes ?? []) : [];
  const lines = list([
    ...parts,
    ...indexes.map(
      ({ column, kind, granularity }) =>
        sql`INDEX ${identifier(`by_${column}`)} ${identifier(column)} TYPE ${kind} GRANULARITY ${granularity}`,
    ),
  ]);
  const partition = table.partition ? sql` PARTITION BY ${table.partition}` : sql``;
  const inMemory = table.keyInMemory ? sql` PRIMARY KEY (${namesOf(table.keyInMemory)})` : sql``;
  const order = sql` ORDER BY (${namesOf(table.key)})`;
  const local = sql`CREATE TABLE IF NOT EXISTS ${name} (${lines}) ENGINE = ${buildEngineSql(place, table)}${partition}${inMemory}${order} SETTINGS ${buildSettingsSql(place, table)}`;
  if (cluster === undefined) return [local];
  const all = qualifyName(database, nameDistributedTable(table.name));
  const whole = sql`Distributed(${identifier(cluster)}, ${identifier(database)}, ${identifier(table.name)})`;
  return [local, sql`CREATE TABLE IF NOT EXISTS ${all} (${list(parts)}) ENGINE = ${whole}`];
}

export function addColumn({ database, version }: TablePlace, tableName: string, column: TableColumn): Sql {
  const ifMissing = version.isCurrent ? sql`IF NOT EXISTS ` : sql``;
  return sql`ALTER TABLE ${qualifyName(database, tableName)} ADD COLUMN ${ifMissing}${buildColumnSql(version, column)}`;
}

/**
 * Builds the statement that drops a partition, for a table with numeric partitions. A missing partition is no error.
 */
export function dropPartition(tableName: string, partition: bigint): Sql {
  return sql`ALTER TABLE ${identifier(tableName)} DROP PARTITION ${partition}`;
}

/** Returns the name of the table that spans all shards. It is only for reading. */
export function nameDistributedTable(name: string): string {
  return `${name}_all`;
}

function qualifyName(database: string, name: string): Sql {
  return sql`${identifier(database)}.${identifier(name)}`;
}

function buildColumnSql(version: ServerVersion, { name, type, computed, isDelta }: TableColumn): Sql {
  const value = computed
    ? sql` ${computed.when === 'DEFAULT' ? sql`DEFAULT` : sql`MATERIALIZED`} ${computed.value}`
    : sql``;
  // Delta shrinks numbers that are close to each other to one or two bytes. T64 drops the bits that are unused in all
  // numbers of a block.
  const codec =
    !version.isCurrent || type.kind !== 'integer'
      ? sql``
      : isDelta
        ? sql` CODEC(Delta, ZSTD(1))`
        : sql` CODEC(T64, ZSTD(1))`;
  return sql`${identifier(name)} ${typeName(type)}${value}${codec}`;
}

function buildEngineSql({ database, cluster }: TablePlace, { name, versionColumn }: FleetTable): Sql {
  const version = versionColumn === undefined ? [] : [identifier(versionColumn)];
  if (cluster === undefined) return sql`ReplacingMergeTree(${version.length > 0 ? list(version) : sql``})`;
  // The path contains the name of the database, because 18.16 lacks the macro for it.
  const path = word(`/clickhouse/kreplay/{shard}/${database}/${name}`);
  return sql`ReplicatedReplacingMergeTree(${list([path, word('{replica}'), ...version])})`;
}

/**
 * Builds the settings of a table. The settings `fsync_...` make an insert wait for the server's disk; only newer
 * servers have them.
 */
function buildSettingsSql({ version, storagePolicy }: TablePlace, { rowsPerMark = 8192 }: FleetTable): Sql {
  const settings = [sql`index_granularity = ${rowsPerMark}`];
  if (version.isCurrent) settings.push(sql`fsync_after_insert = 1`, sql`fsync_part_directory = 1`);
  if (version.isCurrent && storagePolicy !== undefined) settings.push(sql`storage_policy = ${word(storagePolicy)}`);
  return list(settings);
}
