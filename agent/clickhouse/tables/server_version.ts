/**
 * Capabilities of a server by version. Debian ships 18.16. Versions between 18.16 and the oldest supported version are
 * unsupported, but not rejected.
 */
import { type Compression, connect, QUESTION_MS } from '../connection/connection.ts';
import { readSingleRow } from '../connection/rows.ts';
import { ServerError } from '../connection/server_error.ts';
import type { ConnectionSettings } from '../connection/settings.ts';
import { sql } from '../statements/sql.ts';

export interface ServerVersion {
  text: string;
  /** Whether the server has everything that production use requires: codecs, indexes, grants, zstd and disks. */
  isCurrent: boolean;
}

/** The oldest major version that is supported for production. Older versions are only for trials. */
const CURRENT_MAJOR = 24;

export function parseServerVersion(text: string): ServerVersion {
  return { text, isCurrent: Number(/^(\d+)\./.exec(text)?.[1] ?? 0) >= CURRENT_MAJOR };
}

/**
 * Reads a server's version; the database need not exist. Throws a ServerError, or a UserError if the settings are
 * unusable.
 */
export async function readServerVersion(settings: ConnectionSettings): Promise<ServerVersion> {
  try {
    return await queryVersion(settings);
  } catch (error) {
    if (!(error instanceof ServerError) || error.code !== NO_DATABASE) throw error;
    return queryVersion(toDefaultDatabase(settings));
  }
}

/** The server's error code for a missing database. */
export const NO_DATABASE = 81;

/**
 * Returns the settings for the default database. These settings are used only if the configured database does not
 * exist, because an account may have no access to the default database.
 */
export function toDefaultDatabase(settings: ConnectionSettings): ConnectionSettings {
  return { ...settings, database: 'default' };
}

async function queryVersion(settings: ConnectionSettings): Promise<ServerVersion> {
  const connection = connect(settings);
  try {
    const asked = sql`SELECT version() AS version`;
    return parseServerVersion(
      (await readSingleRow(connection, asked, { version: 'text' }, { timeoutMs: QUESTION_MS })).version,
    );
  } finally {
    connection.close();
  }
}

/** Returns the settings that a server needs to create the tables. */
export function chooseTableSettings({ isCurrent }: ServerVersion): Record<string, number> {
  return isCurrent ? {} : { allow_experimental_low_cardinality_type: 1 };
}

/** Returns the cheapest compression that the server supports. */
export function chooseInsertCompression({ isCurrent }: ServerVersion): Compression {
  return isCurrent ? 'zstd' : 'gzip';
}

/**
 * Returns the settings of an insert that is repeated until it is acknowledged. `token` identifies the rows, so that a
 * server drops rows that it already has. `quorum` is the number of replicas that must store the rows.
 */
export function chooseInsertSettings(
  { isCurrent }: ServerVersion,
  { token, quorum }: { token: string; quorum?: number | undefined },
): Record<string, string | number> {
  return {
    // Servers since 26.3 by default acknowledge rows that are only in memory.
    ...(isCurrent && { async_insert: 0, insert_deduplication_token: token }),
    ...(quorum !== undefined && { insert_quorum: quorum }),
  };
}
