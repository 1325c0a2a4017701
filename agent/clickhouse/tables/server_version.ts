/** What a server of a version can do. 18.16 is Debian's; servers in between are not supported, and not refused. */
import type { Connection } from '../connection/connection.ts';
import { rowsOf } from '../connection/rows.ts';
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

export async function serverVersion(connection: Connection): Promise<ServerVersion> {
  const [row] = await rowsOf(connection, sql`SELECT version() AS version`);
  return versionOf(String(row?.version ?? ''));
}

/** Settings with which a server makes our tables. */
export function tableSettings({ isCurrent }: ServerVersion): Record<string, number> {
  return isCurrent ? {} : { allow_experimental_low_cardinality_type: 1 };
}
