/** Tests two nodes behind one daemon: filters, pages and streams cover both as if they were one. */
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { appendRows, newWriter, type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

/** Events in groups of three per node, some at the same nanosecond on both nodes. */
const rowsFrom = (startNs: bigint): Row[] =>
  Array.from({ length: 60 }, (_, i) => ({
    at: startNs + BigInt(Math.floor(i / 3) * 4 + (i % 3)),
    pid: i,
    ...(i % 2 === 0 ? { file: `/data/${i}` } : { type: 'block_io' as const, sector: BigInt(i) }),
  }));

let folders: string[];
let served: Served;
beforeAll(async () => {
  const lose = (count: number) => (writer: ReturnType<typeof newWriter>) =>
    writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count, fromNs: START, toNs: START + 9n });
  folders = [recordedOn('node-a', rowsFrom(START), lose(7)), recordedOn('node-b', rowsFrom(START + 2n), lose(5))];
  served = await serve(openRecordingStore(undefined, folders.map(recordingPath)));
});
afterAll(() => served.close());

async function linesOf(folder: string, query: string): Promise<string[]> {
  const one = await serve(folder);
  const lines = await one.lines(`/api/events?${query}`);
  await one.close();
  return lines;
}

/** Lines sort by this text, the time and then the id: all have the same number of digits. */
const placeOf = (line: string) => /"timestamp_ns":\d+/.exec(line)![0] + /"event_id":"[^"]+"/.exec(line)![0];

test.each(['asc', 'desc'])('a stream has the lines of both recordings in order (%s)', async (order) => {
  const each = await Promise.all(folders.map((folder) => linesOf(folder, '')));
  const sorted = each.flat().sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
  expect(await served.lines(`/api/events?order=${order}`)).toEqual(order === 'asc' ? sorted : sorted.reverse());
  expect(sorted).toHaveLength(120);
});

test('a stream respects a limit', async () => {
  expect(await served.lines('/api/events?limit=50')).toEqual((await served.lines('/api/events')).slice(0, 50));
});

test.each([
  [1, 'asc', ''],
  [7, 'asc', ''],
  [7, 'desc', ''],
  [50, 'desc', ''],
  [4, 'asc', '&event_type=block_io'],
])('pages of %i (%s%s) add up to the unpaged answer', async (limit, order, more) => {
  const query = `order=${order}${more}`;
  const ids: string[] = [];
  for (let cursor = ''; ; ) {
    const { json } = await served.get(`/api/events?${query}&limit=${limit}${cursor}`);
    ids.push(...json.events.map(({ event_id }: { event_id: string }) => event_id));
    if (json.next_cursor === null) break;
    expect(json.events).toHaveLength(limit);
    cursor = `&cursor=${json.next_cursor}`;
  }
  expect(ids).toEqual((await served.lines(`/api/events?${query}`)).map((line) => JSON.parse(line).event_id));
});

test('node selects recordings and their losses', async () => {
  const { json } = await served.get('/api/events?node=node-b');
  expect(json.events.map(({ node }: { node: string }) => node)).toEqual(Array(60).fill('node-b'));
  expect([json.coverage.lost, (await served.get('/api/events')).json.coverage.lost]).toEqual([5, 12]);
  expect(await served.lines('/api/events?node=node-a')).toEqual(await linesOf(folders[0]!, ''));
  expect((await served.get('/api/events?node=node-a,node-b')).json.events).toHaveLength(120);
  expect((await served.get('/api/events?node=nowhere')).json).toMatchObject({ events: [], coverage: { lost: 0 } });
});

test('names and readiness cover both recordings', async () => {
  expect((await served.get('/api/nodes')).json).toEqual({ nodes: ['node-a', 'node-b'] });
  expect((await served.get('/api/services')).json).toEqual({ services: ['shop'] });
  const { recordings } = (await served.get('/readyz')).json;
  expect(recordings.map(({ node }: { node: string }) => node)).toEqual(['node-a', 'node-b']);
});

test('an event of each recording is found by its id', async () => {
  const lines = await served.lines('/api/events');
  for (const line of [lines[0]!, lines.at(-1)!])
    expect((await served.get(`/api/events/${JSON.parse(line).event_id}`)).text).toBe(line);
});

test('a page is made in many turns of the event loop, even if runs are short', async () => {
  const many = (offset: bigint) =>
    Array.from({ length: 3000 }, (_, i): Row => ({ at: START + BigInt(i) * 2n + offset }));
  const alternating = [recordedOn('a', many(0n)), recordedOn('b', many(1n))];
  const one = await serve(openRecordingStore(undefined, alternating.map(recordingPath)));
  const lines = await one.lines('/api/events');
  expect(lines.map((line) => JSON.parse(line).node)).toEqual(Array.from({ length: 6000 }, (_, i) => 'ab'[i % 2]));
  await one.close();
});

test('growing recordings repeat no event and skip none', async () => {
  const grown = [recordedOn('a', rowsFrom(START)), recordedOn('b', rowsFrom(START + 1n))];
  const writers = grown.map((folder, i) => newWriter(folder, 'ab'[i]));
  const one = await serve(openRecordingStore(undefined, grown.map(recordingPath)));
  const first = await one.get('/api/events?limit=50');
  for (const writer of writers) appendRows(writer, rowsFrom(START + 1000n));
  const rest = await one.get(`/api/events?limit=50&cursor=${first.json.next_cursor}`);
  const ids = [...first.json.events, ...rest.json.events].map(({ event_id }) => event_id);
  expect(ids).toEqual((await one.lines('/api/events')).slice(0, 100).map((line) => JSON.parse(line).event_id));
  for (const writer of writers) writer.close();
  await one.close();
});
