/** Abilities of a server by version. 18.16 is Debian's; versions in between are unsupported, but not refused. */
import { type Compression, connect, QUESTION_MS } from '../connection/connection.ts';
import { readSingleRow } from '../connection/rows.ts';
import { ServerError } from '../connection/server_error.ts';
import type { ConnectionSettings } from '../connection/settings.ts';
import { sql } from '../statements/sql.ts';

export interface ServerVersion {
  text: string;
  /** Whether it has all that is expected of a server in use: codecs, indexes, grants, zstd, disks. */
  isCurrent: boolean;
}

/** The oldest version that is supported for use; older ones are for trials. */
const CURRENT_MAJOR = 24;

export function parseServerVersion(text: string): ServerVersion {
  return { text, isCurrent: Number(/^(\d+)\./.exec(text)?.[1] ?? 0) >= CURRENT_MAJOR };
}

/** The database need not exist. Throws a ServerError, or a UserError for the settings. */
export async function readServerVersion(settings: ConnectionSettings): Promise<ServerVersion> {
  try {
    return await queryVersion(settings);
  } catch (error) {
    if (!(error instanceof ServerError) || error.code !== NO_DATABASE) throw error;
    return queryVersion(toDefaultDatabase(settings));
  }
}

/** The code of a server for a database that is not there. */
export const NO_DATABASE = 81;

/** Used only if the own database does not exist, because an account may be shut out of the default one. */
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

/** Settings that a server needs to create the tables. */
export function chooseTableSettings({ isCurrent }: ServerVersion): Record<string, number> {
  return isCurrent ? {} : { allow_experimental_low_cardinality_type: 1 };
}

/** Returns the cheapest compression that the server knows. */
export function chooseInsertCompression({ isCurrent }: ServerVersion): Compression {
  return isCurrent ? 'zstd' : 'gzip';
}

/**
 * Settings of an insert that is repeated until it is acknowledged. `token` names the rows, so that a server drops rows
 * that it already has; `quorum` is the number of replicas that must have them.
 */
export function chooseInsertSettings(
  { isCurrent }: ServerVersion,
  { token, quorum }: { token: string; quorum?: number | undefined },
): Record<string, string | number> {
  return {
    // Servers from 26.3 on acknowledge rows that are in memory only, unless told otherwise.
    ...(isCurrent && { async_insert: 0, insert_deduplication_token: token }),
    ...(quorum !== undefined && { insert_quorum: quorum }),
  };
}
