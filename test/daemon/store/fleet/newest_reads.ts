/**
 * `node test/daemon/store/fleet/newest_reads.ts FOLDER`: sends recordings to the newest ClickHouse that can be embedded,
 * which the folder has as the package `chdb`, and compares the answers. It has no HTTP: files take its place.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import fc from 'fast-check';
import type { Connection } from '../../../../agent/clickhouse/connection/connection.ts';
import { decodeBlocks } from '../../../../agent/clickhouse/native/decode.ts';
import { createDatabase, createTable } from '../../../../agent/clickhouse/tables/ddl.ts';
import { readMeta, writeMeta } from '../../../../agent/clickhouse/tables/meta.ts';
import { BUCKET_NS_DEFAULT, buildTables, SCHEMA_VERSION } from '../../../../agent/clickhouse/tables/schema.ts';
import { parseServerVersion } from '../../../../agent/clickhouse/tables/server_version.ts';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import type { Store } from '../../../../daemon/store/store.ts';

interface Session {
  query(statement: string, format?: string): string;
}

const RUNS = { numRuns: 60 };
const DATABASE = 'kreplay';
const [package_] = process.argv.slice(2);
const { Session } = createRequire(join(resolve(package_!), 'x.js'))('chdb') as {
  Session: new (path: string) => Session;
};
const folder = mkdtempSync(join(tmpdir(), 'kreplay-newest-'));

/** A connection to the session, which does one thing at a time. */
function connectionTo(session: Session): Connection {
  let files = 0;
  return {
    database: DATABASE,
    run: async ({ text }) => void session.query(text),
    async *select({ text }) {
      const path = join(folder, `answer-${++files}`);
      session.query(`${text} INTO OUTFILE '${path}' FORMAT Native`);
      async function* chunks() {
        yield readFileSync(path);
        rmSync(path);
      }
      yield* decodeBlocks(chunks());
    },
    async insert({ table, columns }, blocks) {
      const path = join(folder, `rows-${++files}`);
      const all: Uint8Array[] = [];
      // The memory of a block is used again for the next one.
      for await (const block of blocks()) all.push(Buffer.from(block));
      writeFileSync(path, Buffer.concat(all));
      session.query(`INSERT INTO ${table} (${columns.join()}) FROM INFILE '${path}' FORMAT Native`);
      rmSync(path);
    },
    close: () => {},
  };
}

/** Fixtures ask the test runner to clean up. */
const cleanups: (() => void)[] = [];
Object.assign(globalThis, { afterAll: (work: () => void) => cleanups.push(work) });

try {
  const session = new Session(join(folder, 'data'));
  const version = session.query('SELECT version()', 'TabSeparated').trim();
  const place = { database: DATABASE, version: parseServerVersion(version) };
  for (const { text } of [
    createDatabase(place),
    ...buildTables(BUCKET_NS_DEFAULT).flatMap((of) => createTable(place, of)),
  ])
    session.query(text);
  session.query(`USE ${DATABASE}`);
  const connection = connectionTo(session);
  await writeMeta(connection, { schemaVersion: SCHEMA_VERSION, bucketNs: BUCKET_NS_DEFAULT }, 1n);
  assert.equal((await readMeta(connection))?.schemaVersion, SCHEMA_VERSION);
  const questions = await compareAnswers(connection);
  console.log(`ClickHouse ${version}: ${questions} answers are those of the recordings`);
} finally {
  for (const clean of cleanups) clean();
  rmSync(folder, { recursive: true, force: true });
}

async function compareAnswers(connection: Connection): Promise<number> {
  const { recordedCorpus, TRANSACTIONS } = await import('./corpus.ts');
  const { storesOf, resultOf } = await import('./both_stores.ts');
  const { drawnFilter, drawnGroups, drawnOrder, drawnSort, drawnSums, drawnTransactionFilter } = await import(
    './drawn_requests.ts'
  );
  const { createFleet } = await import('../../../../daemon/store/fleet/fleet.ts');
  const fleet = createFleet(connection, { bucketNs: BUCKET_NS_DEFAULT, isCluster: false });
  const { files, tables, close } = await storesOf(fleet, recordedCorpus());
  let questions = 0;
  async function compare(ask: (store: Store) => Promise<unknown>): Promise<void> {
    questions++;
    assert.equal(stringify(await ask(tables)), stringify(await ask(files)));
  }
  const linesOf = async (chunks: AsyncIterable<Uint8Array>) => {
    const all: Buffer[] = [];
    for await (const chunk of chunks) all.push(Buffer.from(chunk));
    return Buffer.concat(all).toString();
  };
  await compare((store) => store.listServices());
  await compare((store) => store.listNodes());
  for (const id of TRANSACTIONS) await compare((store) => store.findTransaction(id));
  await fc.assert(
    fc.asyncProperty(drawnFilter, drawnOrder, drawnGroups, async (filter, order, groupBy) => {
      await compare((store) => linesOf(store.scanJson({ filter, order })));
      await compare((store) => linesOf(store.scanJson({ filter, order, limit: 50 })));
      await compare((store) => resultOf(store.computeStats({ filter, bucketNs: undefined, groupBy })));
    }),
    RUNS,
  );
  await fc.assert(
    fc.asyncProperty(drawnTransactionFilter, drawnSort, async (filter, sort) => {
      await compare((store) => resultOf(store.listTransactions({ filter, sort, limit: 20 })));
    }),
    RUNS,
  );
  await fc.assert(
    fc.asyncProperty(drawnSums, (request) => compare((store) => resultOf(store.computeStats(request)))),
    RUNS,
  );
  await close();
  return questions;
}
