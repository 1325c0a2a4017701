/** The same recordings twice: as files, and sent to the tables of a fleet. */
import { createEmbeddedStore } from '../../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../../daemon/store/fleet/fleet_store.ts';
import type { Store } from '../../../../daemon/store/store.ts';
import { type ClickHouseServer, startServer } from '../../../clickhouse/server.ts';
import { newFleet, shipAll } from './shipped.ts';

export interface BothStores {
  fleet: Fleet;
  files: Store;
  tables: Store;
  close(): Promise<void>;
}

export async function bothStores(paths: readonly string[]): Promise<BothStores & { server: ClickHouseServer }> {
  const server = await startServer();
  return { ...(await storesOf(await newFleet(server, 'fleet'), paths)), server };
}

export async function storesOf(fleet: Fleet, paths: readonly string[]): Promise<BothStores> {
  // What is sent again counts once.
  for (const path of [...paths, ...paths.slice(1)]) await shipAll(fleet, path);
  const files = createEmbeddedStore(openRecordingStore(undefined, paths));
  const tables = createFleetStore(fleet);
  return {
    fleet,
    files,
    tables,
    async close() {
      await files.close();
      await tables.close();
    },
  };
}

/** What an asynchronous generator returns, whatever it yields before. */
export async function resultOf<Result>(steps: AsyncGenerator<unknown, Result>): Promise<Result> {
  for (;;) {
    const { done, value } = await steps.next();
    if (done) return value;
  }
}
