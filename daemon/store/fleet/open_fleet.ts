/** Connects to the tables of a fleet, and checks that they exist and have a schema that this kreplay can read. */
import { type Connection, connect } from '../../../agent/clickhouse/connection/connection.ts';
import { readTypedRows } from '../../../agent/clickhouse/connection/rows.ts';
import type { ConnectionSettings } from '../../../agent/clickhouse/connection/settings.ts';
import type { NativeBlock } from '../../../agent/clickhouse/native/decode.ts';
import { sql } from '../../../agent/clickhouse/statements/sql.ts';
import { nameDistributedTable } from '../../../agent/clickhouse/tables/ddl.ts';
import { readMeta, readServerColumns } from '../../../agent/clickhouse/tables/meta.ts';
import { SCHEMA_VERSION } from '../../../agent/clickhouse/tables/schema.ts';
import { UserError } from '../../../agent/process/errors.ts';
import { createFleet, type Fleet } from './fleet.ts';

/** Address of a fleet's tables, in a form that can be passed to a thread. */
export interface FleetSettings extends ConnectionSettings {
  /** The account that may write pins, if it differs from the account that reads. */
  pins?: Pick<ConnectionSettings, 'user' | 'passwordFile'> | undefined;
}

/** Opens the fleet. Throws a UserError on failure, for example if a server cannot be reached. */
export async function openFleet(settings: FleetSettings): Promise<Fleet> {
  const connection = connect(settings);
  const pinning = settings.pins ? connectToPin(settings, connection) : connection;
  try {
    return await openFleetTables(connection, pinning);
  } catch (error) {
    for (const one of new Set([connection, pinning])) one.close();
    throw error;
  }
}

function connectToPin({ pins, ...settings }: FleetSettings, opened: Connection): Connection {
  try {
    return connect({ ...settings, ...pins });
  } catch (error) {
    opened.close();
    throw error;
  }
}

async function openFleetTables(connection: Connection, pinning: Connection): Promise<Fleet> {
  const meta = await readMeta(connection);
  const { database } = connection;
  if (!meta) throw new UserError(`the database ${database} has no tables of kreplay: run \`kreplay fleet init\``);
  if (meta.schemaVersion !== SCHEMA_VERSION) {
    const advice = meta.schemaVersion < SCHEMA_VERSION ? 'run `kreplay fleet upgrade`' : 'install that version here';
    throw new UserError(`the database ${database} has schema ${meta.schemaVersion}, not ${SCHEMA_VERSION}: ${advice}`);
  }
  const isCluster = (await readServerColumns(connection)).has(nameDistributedTable('event'));
  if (isCluster) await refuseLeavingOut(connection);
  return createFleet(connection, { bucketNs: meta.bucketNs, isCluster }, pinning);
}

/** Refuses a setting that would make answers silently omit unavailable shards. */
async function refuseLeavingOut(connection: Connection): Promise<void> {
  const [setting] = await readTypedRows(
    connection,
    sql`SELECT value FROM system.settings WHERE name = 'skip_unavailable_shards'`,
    { value: 'text' },
  );
  if (setting === undefined || setting.value === '0') return;
  throw new UserError(
    'the profile of the account has skip_unavailable_shards: answers would lack shards silently, so set it to 0',
  );
}

/* Measures how long a server takes for statements. */

/**
 * Returns a fleet that calls `onStatement` with the duration in seconds whenever a statement ends, even if it fails or
 * is aborted.
 */
export function measureFleet(fleet: Fleet, onStatement: (seconds: number) => void): Fleet {
  const { connection } = fleet;
  return {
    ...fleet,
    connection: {
      ...connection,
      select: (statement, options) => measureStatement(connection.select(statement, options), onStatement),
    },
  };
}

/** Measures only the time spent waiting for the server, not the time between two reads of blocks. */
async function* measureStatement(
  blocks: AsyncGenerator<NativeBlock>,
  onStatement: (seconds: number) => void,
): AsyncGenerator<NativeBlock> {
  let waitedMs = 0;
  try {
    for (;;) {
      const sinceMs = performance.now();
      let next: IteratorResult<NativeBlock>;
      try {
        next = await blocks.next();
      } finally {
        waitedMs += performance.now() - sinceMs;
      }
      if (next.done) return;
      yield next.value;
    }
  } finally {
    await blocks.return(undefined);
    onStatement(waitedMs / 1000);
  }
}
