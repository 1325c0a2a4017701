/** What a server of a version can do. 18.16 is Debian's; servers in between are not supported, and not refused. */
import { connect } from '../connection/connection.ts';
import { rowsOf } from '../connection/rows.ts';
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

export function versionOf(text: string): ServerVersion {
  return { text, isCurrent: Number(/^(\d+)\./.exec(text)?.[1] ?? 0) >= CURRENT_MAJOR };
}

/** The database need not exist. Throws a ServerError, or a UserError for the settings. */
export async function versionAt(settings: ConnectionSettings): Promise<ServerVersion> {
  try {
    return await askedIn(settings);
  } catch (error) {
    if (!(error instanceof ServerError) || error.code !== NO_DATABASE) throw error;
    return askedIn(inDefault(settings));
  }
}

const NO_DATABASE = 81;

/** An account may be shut out of this database, so it is used only where the own one does not exist. */
export function inDefault(settings: ConnectionSettings): ConnectionSettings {
  return { ...settings, database: 'default' };
}

async function askedIn(settings: ConnectionSettings): Promise<ServerVersion> {
  const connection = connect(settings);
  try {
    const [row] = await rowsOf(connection, sql`SELECT version() AS version`);
    return versionOf(String(row?.version ?? ''));
  } finally {
    connection.close();
  }
}

/** Settings with which a server makes our tables. */
export function tableSettings({ isCurrent }: ServerVersion): Record<string, number> {
  return isCurrent ? {} : { allow_experimental_low_cardinality_type: 1 };
}
