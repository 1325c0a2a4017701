/** Tests that a scan of a fleet's tables has the events of the recordings that were sent, byte for byte. */
import fc from 'fast-check';
import { type Connection, connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { createTables } from '../../../../agent/clickhouse/tables/changes.ts';
import { BUCKET_NS_DEFAULT } from '../../../../agent/clickhouse/tables/schema.ts';
import { versionAt } from '../../../../agent/clickhouse/tables/server_version.ts';
import { keyOf } from '../../../../daemon/store/blocks/event.ts';
import { jsonPieces } from '../../../../daemon/store/blocks/event_json.ts';
import type { ScannedBlock } from '../../../../daemon/store/blocks/scanned_block.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { scanFleet } from '../../../../daemon/store/fleet/scan.ts';
import type { ScanRequest } from '../../../../daemon/store/store.ts';
import { endServers, isInstalled, startServer } from '../../../clickhouse/server.ts';
import { later } from '../../later.ts';
import { recordedCorpus } from './corpus.ts';
import { drawnFilter, drawnOrder } from './drawn_requests.ts';
import { sendEvents } from './sent_events.ts';

const withServer = isInstalled ? describe : describe.skip;
let recordings: Recordings;
let connection: Connection;
let fleet: Fleet;

beforeAll(async () => {
  if (!isInstalled) return;
  const server = await startServer();
  const settings = { urls: [server.url], database: 'fleet' };
  await createTables(settings, { database: 'fleet', version: await versionAt(settings) }, { nowNs: 1n });
  connection = connect(settings);
  fleet = { connection, bucketNs: BUCKET_NS_DEFAULT, isCluster: false };
  recordings = openRecordingStore(undefined, recordedCorpus());
  await sendEvents(connection, recordings);
  // What was sent again is returned once.
  await sendEvents(connection, recordings);
}, 60_000);
afterAll(async () => {
  connection?.close();
  recordings?.close();
  await endServers();
});

async function linesOf(blocks: AsyncIterable<ScannedBlock>): Promise<string[]> {
  const pieces: Buffer[] = [];
  for await (const piece of jsonPieces(blocks, '\n')) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces).toString().split('\n').filter(Boolean);
}

const sent = (request: ScanRequest) => linesOf(scanFleet(fleet, request));
const recorded = (request: ScanRequest) => linesOf(later(recordings.scan(request)));

withServer('a scan', () => {
  test.each(['asc', 'desc'] as const)('has every event once, in order (%s)', async (order) => {
    const lines = await sent({ filter: {}, order });
    expect(lines).toHaveLength(2400);
    expect(lines).toEqual(await recorded({ filter: {}, order }));
  });

  test('has what a filter selects, in pages', async () => {
    let most = 0;
    await fc.assert(
      fc.asyncProperty(drawnFilter, drawnOrder, fc.integer({ min: 1, max: 300 }), async (filter, order, limit) => {
        const all = await recorded({ filter, order });
        most = Math.max(most, all.length);
        expect(await sent({ filter, order })).toEqual(all);
        const page = await sent({ filter, order, limit });
        expect(page).toEqual(all.slice(0, limit));
        if (page.length === 0) return;
        const last = JSON.parse(page.at(-1)!);
        const after = { timestamp_ns: BigInt(/"timestamp_ns":(\d+)/.exec(page.at(-1)!)![1]!), event_id: last.event_id };
        expect(await sent({ filter, order, limit, after })).toEqual(all.slice(limit, 2 * limit));
        expect(await recorded({ filter, order, limit, after })).toEqual(all.slice(limit, 2 * limit));
      }),
      { numRuns: 500 },
    );
    expect(most).toBeGreaterThan(1000);
  }, 300_000);

  test('returns the columns that are asked for, and knows each row by its key', async () => {
    const columns = ['duration_ns', 'block_io.device'];
    const request = { filter: { eventTypes: ['block_io'] }, order: 'asc', columns } as const;
    const [blocks, expected] = [[] as ScannedBlock[], [...recordings.scan(request)]];
    for await (const scanned of scanFleet(fleet, request)) blocks.push(scanned);
    const keysOf = (some: ScannedBlock[]) =>
      some.flatMap((one) => Array.from({ length: one.block.rowCount }, (_, row) => keyOf(one, row)));
    expect(keysOf(blocks)).toEqual(keysOf(expected));
    const names = ['block_io.device', 'duration_ns', 'event_type', 'recording', 'timestamp_ns'];
    for (const { block } of blocks) expect([...block.columns.keys()].sort()).toEqual(names);
  });
});
