/** The table `meta`: values that concern all tables, stored by key. */
import { type Connection, QUESTION_MS } from '../connection/connection.ts';
import { type RowsOptions, readTypedRows } from '../connection/rows.ts';
import { ServerError } from '../connection/server_error.ts';
import { createBlockEncoder } from '../native/encode.ts';
import { createTextTable } from '../native/texts.ts';
import { parseType } from '../native/types.ts';
import { identifier, sql, text } from '../statements/sql.ts';
import { NO_DATABASE } from './server_version.ts';

export interface Meta {
  schemaVersion: number;
  bucketNs: bigint;
  /** The cluster that the tables are replicated in. */
  cluster?: string | undefined;
  /** The storage policy of the tables, if it is not the server's default. */
  storagePolicy?: string | undefined;
}

/** The state of `Meta` while `kreplay fleet init` runs. The schema version is missing, because it is written last. */
export type MetaDraft = Omit<Meta, 'schemaVersion'> & { schemaVersion?: number | undefined };

const KEYS = {
  schemaVersion: 'schema_version',
  bucketNs: 'bucket_ns',
  cluster: 'cluster',
  storagePolicy: 'storage_policy',
} as const;

/** Error codes for a missing table and for a missing database. */
const MISSING: readonly unknown[] = [60, NO_DATABASE];

/**
 * Reads `meta`; returns undefined until all tables are created. Throws a ServerError, also if `meta` is not a table of
 * kreplay.
 */
export async function readMeta(connection: Connection, options: RowsOptions = {}): Promise<Meta | undefined> {
  const draft = await readDraft(connection, options);
  return draft?.schemaVersion === undefined ? undefined : { ...draft, schemaVersion: draft.schemaVersion };
}

/**
 * Reads `meta` even before all tables are created; returns undefined if it is empty or missing. Throws a ServerError,
 * also if `meta` is not a table of kreplay.
 */
export async function readDraft(connection: Connection, options: RowsOptions = {}): Promise<MetaDraft | undefined> {
  const values = new Map<string, string>();
  try {
    const latest = sql`SELECT key, argMax(value, at) AS value FROM ${identifier('meta')} GROUP BY key`;
    const rows = await readTypedRows(
      connection,
      latest,
      { key: 'text', value: 'text' },
      { timeoutMs: QUESTION_MS, ...options },
    );
    for (const { key, value } of rows) values.set(key, value);
  } catch (error) {
    if (error instanceof ServerError && MISSING.includes(error.code)) return undefined;
    throw error;
  }
  if (values.size === 0) return undefined;
  const schema = values.get(KEYS.schemaVersion);
  const bucket = values.get(KEYS.bucketNs);
  if (!/^[1-9]\d{0,8}$/.test(schema ?? '1') || !/^[1-9]\d{0,18}$/.test(bucket ?? ''))
    throw new ServerError('malformed', 'blocked', 'the table meta is not of kreplay: choose another database');
  return {
    schemaVersion: schema === undefined ? undefined : Number(schema),
    bucketNs: BigInt(bucket!),
    cluster: values.get(KEYS.cluster),
    storagePolicy: values.get(KEYS.storagePolicy),
  };
}

export async function writeMeta(connection: Connection, values: Partial<Meta>, atNs: bigint): Promise<void> {
  const rows = (Object.keys(KEYS) as (keyof Meta)[]).flatMap((name) =>
    values[name] === undefined ? [] : [[KEYS[name], String(values[name])] as const],
  );
  await insert(connection, rows, atNs);
}

async function insert(
  connection: Connection,
  rows: readonly (readonly [key: string, value: string])[],
  atNs: bigint,
): Promise<void> {
  const columns = [
    { name: 'key', type: parseType('String'), values: { table: createTextTable(rows.map(([key]) => key)) } },
    { name: 'at', type: parseType('UInt64'), values: new BigUint64Array(rows.length).fill(atNs) },
    { name: 'value', type: parseType('String'), values: { table: createTextTable(rows.map(([, value]) => value)) } },
  ];
  const block = createBlockEncoder().encode(columns, rows.length);
  await connection.insert({ table: 'meta', columns: columns.map(({ name }) => name) }, () => [block]);
}

/** Returns the value of a key; undefined if there is none. Throws a ServerError. */
export async function readValue(connection: Connection, key: string): Promise<string | undefined> {
  return (await readLatestValue(connection, key))?.value;
}

/** Replaces the value of a key, even if the clock was set back after the last write. Throws a ServerError. */
export async function writeValue(connection: Connection, key: string, value: string, nowNs: bigint): Promise<void> {
  const latest = await readLatestValue(connection, key);
  const atNs = latest && latest.atNs >= nowNs ? latest.atNs + 1n : nowNs;
  await insert(connection, [[key, value]], atNs);
}

async function readLatestValue(
  connection: Connection,
  key: string,
): Promise<{ value: string; atNs: bigint } | undefined> {
  const statement = sql`SELECT argMax(value, at) AS value, max(at) AS latest FROM ${identifier('meta')}
WHERE key = ${text(key)} HAVING count() > 0`;
  const [row] = await readTypedRows(connection, statement, { value: 'text', latest: 'number' });
  return row && { value: row.value, atNs: row.latest };
}

/** Returns the names and types of the columns of each table in the database. */
export async function readServerColumns(
  connection: Connection,
  options: RowsOptions = {},
): Promise<Map<string, Map<string, string>>> {
  const statement = sql`SELECT table, name, type FROM system.columns WHERE database = ${text(connection.database)}`;
  const tables = new Map<string, Map<string, string>>();
  const shape = { table: 'text', name: 'text', type: 'text' } as const;
  for (const { table, name, type } of await readTypedRows(connection, statement, shape, options)) {
    const columns = tables.get(table) ?? new Map<string, string>();
    tables.set(table, columns.set(name, type));
  }
  return tables;
}
