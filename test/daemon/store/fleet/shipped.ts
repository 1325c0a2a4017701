/** Fills the tables of a fleet from recordings, as `kreplay ship --once` does. */
import { dirname } from 'node:path';
import { pino } from 'pino';
import { connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { createTables } from '../../../../agent/clickhouse/tables/changes.ts';
import { BUCKET_NS_DEFAULT } from '../../../../agent/clickhouse/tables/schema.ts';
import { readServerVersion } from '../../../../agent/clickhouse/tables/server_version.ts';
import { COMMAND_PATIENCE } from '../../../../agent/ship/persist.ts';
import { createShipProgress } from '../../../../agent/ship/progress.ts';
import { ship } from '../../../../agent/ship/ship.ts';
import { createFleet, type Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import type { ClickHouseServer } from '../../../clickhouse/server.ts';
import { newFolder } from '../../recorded.ts';

/** Makes the tables in a database of their own. */
export async function newFleet({ url }: ClickHouseServer, database: string): Promise<Fleet> {
  const settings = { urls: [url], database };
  await createTables(settings, { database, version: await readServerVersion(settings) }, { nowNs: 1n });
  return createFleet(connect(settings), { bucketNs: BUCKET_NS_DEFAULT, isCluster: false });
}

/** Sends all of a recording, also where it was sent before. Groups are small, so that there are several. */
export async function shipAll({ connection }: Fleet, path: string): Promise<void> {
  const options = {
    ...{ connection, folder: newFolder(), quorum: undefined, compression: undefined, eventsMax: 400 },
    ...{ flushMs: 1000, catchUp: 3, claims: true, once: true, patience: COMMAND_PATIENCE },
    progress: createShipProgress(),
    log: pino({ level: 'silent' }),
    signal: new AbortController().signal,
  };
  await ship(options, path);
  if (options.progress.trouble) throw new Error(`${dirname(path)}: ${options.progress.trouble.message}`);
}
