/** Tests that a scan of a fleet's tables has the events of the recordings that were sent, byte for byte. */
import fc from 'fast-check';
import { keyOf } from '../../../../daemon/store/blocks/event.ts';
import { jsonPieces } from '../../../../daemon/store/blocks/event_json.ts';
import type { ScannedBlock } from '../../../../daemon/store/blocks/scanned_block.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { scanFleet } from '../../../../daemon/store/fleet/scan.ts';
import type { ScanRequest } from '../../../../daemon/store/store.ts';
import { endServers, isInstalled, startServer } from '../../../clickhouse/server.ts';
import { times } from '../../../repeats.ts';
import { later } from '../../later.ts';
import { recordedCorpus } from './corpus.ts';
import { drawnFilter, drawnOrder } from './drawn_requests.ts';
import { newFleet, shipAll } from './shipped.ts';

const withServer = isInstalled ? describe : describe.skip;
let recordings: Recordings;
let fleet: Fleet;

beforeAll(async () => {
  if (!isInstalled) return;
  const server = await startServer();
  fleet = await newFleet(server, 'fleet');
  const paths = recordedCorpus();
  recordings = openRecordingStore(undefined, paths);
  // What is sent again is returned once.
  for (const path of [...paths, ...paths.slice(1)]) await shipAll(fleet, path);
}, 60_000);
afterAll(async () => {
  fleet?.connection.close();
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
      // One of all events is always among them.
      { numRuns: times(50), examples: [[{}, 'asc', 300]] },
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
