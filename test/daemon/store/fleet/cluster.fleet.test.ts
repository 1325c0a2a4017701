/** Tests that the tables of two shards have the answers of the recordings that were sent to one or the other. */
import fc from 'fast-check';
import { connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { BUCKET_NS_DEFAULT } from '../../../../agent/clickhouse/tables/schema.ts';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { createEmbeddedStore } from '../../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { createFleet, type Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { createFleetStore } from '../../../../daemon/store/fleet/fleet_store.ts';
import type { Store } from '../../../../daemon/store/store.ts';
import { startCluster } from '../../../clickhouse/cluster.ts';
import { endServers } from '../../../clickhouse/server.ts';
import { times } from '../../../repeats.ts';
import { initFleet } from '../../../ship/fleet.ts';
import { resultOf } from './both_stores.ts';
import { recordedCorpus, TRANSACTIONS } from './corpus.ts';
import { drawnFilter, drawnOrder, drawnSort, drawnSums, drawnTransactionFilter } from './drawn_requests.ts';
import { shipAll } from './shipped.ts';

const RUNS = { numRuns: times(6) };
let [files, tables]: Store[] = [];

beforeAll(async () => {
  const servers = (await startCluster(2, 1)).flat();
  for (const server of servers) await initFleet(server, 'main');
  const shards: Fleet[] = servers.map(({ url }) =>
    createFleet(connect({ urls: [url], database: 'kreplay' }), { bucketNs: BUCKET_NS_DEFAULT, isCluster: true }),
  );
  const paths = recordedCorpus(1200);
  for (const [i, path] of paths.entries()) await shipAll(shards[i % shards.length]!, path);
  for (const { connection } of shards.slice(1)) connection.close();
  files = createEmbeddedStore(openRecordingStore(undefined, paths));
  tables = createFleetStore(shards[0]!);
}, 180_000);
afterAll(async () => {
  await files?.close();
  await tables?.close();
  await endServers();
});

async function expectSame(ask: (store: Store) => Promise<unknown>): Promise<void> {
  expect(JSON.parse(stringify((await ask(tables!)) ?? null))).toEqual(
    JSON.parse(stringify((await ask(files!)) ?? null)),
  );
}

async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(Buffer.from(chunk));
  return Buffer.concat(all).toString();
}

describe('two shards', () => {
  test('have the same names and transactions', async () => {
    await expectSame((store) => store.listServices());
    await expectSame((store) => store.listNodes());
    for (const id of TRANSACTIONS) await expectSame((store) => store.findTransaction(id));
  });

  test('have the same events, in pages too', async () => {
    await fc.assert(
      fc.asyncProperty(drawnFilter, drawnOrder, async (filter, order) => {
        await expectSame((store) => textOf(store.scanJson({ filter, order })));
        await expectSame((store) => textOf(store.scanJson({ filter, order, limit: 20 })));
      }),
      RUNS,
    );
  }, 120_000);

  test('have the same lists of transactions and sums', async () => {
    await fc.assert(
      fc.asyncProperty(drawnTransactionFilter, drawnSort, drawnSums, async (filter, sort, sums) => {
        await expectSame((store) => resultOf(store.listTransactions({ filter, sort, limit: 20 })));
        await expectSame((store) => resultOf(store.computeStats(sums)));
      }),
      RUNS,
    );
  }, 120_000);
});
