/** Tests a transaction that spans two nodes: it is replayed over HTTP on one time line. */
import { mkdirSync, renameSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { parseJson } from '../../../daemon/base/exact_json.ts';
import { CHUNK_EVENTS } from '../../../daemon/replay/plan/plan.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Answer, type Served, serve } from '../served.ts';
import { framesOf } from './frames.ts';

const MS = 1_000_000n;
const SESSIONS = '/api/replay/sessions';
/** Number of events of each node: more than a session reads ahead. */
const COUNT = 5 * CHUNK_EVENTS + 10;

/** The events of a node's thread 100; the thread 100 of the other node is a different thread. */
const rowsFrom = (startNs: bigint): Row[] =>
  Array.from({ length: COUNT }, (_, i) => ({
    at: START + startNs + (BigInt(i) * MS) / 10n,
    duration: 1000n,
    transaction: 'tx-1',
    tid: 100,
  }));

const opened: Served[] = [];
async function opening(made: Promise<Served>): Promise<Served> {
  const one = await made;
  opened.push(one);
  return one;
}

let served: Served;
beforeAll(async () => {
  const folders = [recordedOn('node-a', rowsFrom(0n)), recordedOn('node-b', rowsFrom(MS / 20n))];
  served = await opening(serve(openRecordingStore(undefined, folders.map(recordingPath))));
});
afterAll(() => Promise.all(opened.map((one) => one.close())));

function post(to: Served, path: string, body: object = {}): Promise<Answer> {
  const headers = { 'content-type': 'application/json' };
  return to.get(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function create(to: Served, more: object = {}): Promise<string> {
  const { status, json } = await post(to, SESSIONS, { transaction_id: 'tx-1', ...more });
  expect([status, json.event_count]).toEqual([201, 2 * COUNT]);
  return `${SESSIONS}/${json.session_id}`;
}

test('a stream plays both nodes in the order of the query', async () => {
  const path = await create(served);
  const stream = await served.open(`${path}/events`);
  await post(served, `${path}/play`);
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += chunk;
  const frames = framesOf(text);
  const played = frames.filter(({ event }) => event === 'event').map(({ data }) => data);
  const queried = (await served.lines('/api/events?transaction_id=tx-1')).map(parseJson);
  expect(played.map(({ replay, ...event }) => event)).toEqual(queried);
  expect(played.map(({ replay }) => replay.index)).toEqual(Array.from({ length: 2 * COUNT }, (_, i) => i));
  expect(played.slice(0, 4).map(({ node }) => node)).toEqual(['node-a', 'node-b', 'node-a', 'node-b']);
  expect(frames.at(-1)).toMatchObject({ event: 'end', data: { reason: 'finished' } });
});

test('a seek finds events of each node, even with equal event numbers', async () => {
  const path = await create(served);
  const lines = await served.lines('/api/events?transaction_id=tx-1');
  for (const index of [0, 1, 2 * COUNT - 2, 2 * COUNT - 1]) {
    const { event_id } = JSON.parse(lines[index]!);
    expect((await post(served, `${path}/seek`, { event_id })).json).toMatchObject({ event_index: index });
  }
  const nowhere = { event_id: `${'0'.repeat(16)}-${'0'.repeat(16)}` };
  expect((await post(served, `${path}/seek`, nowhere)).json.code).toBe('event_not_found');
});

test('extra latency moves the threads of each node independently', async () => {
  const path = await create(served, { extra_latency_ns: Number(MS) });
  const { json } = await post(served, `${path}/step`, { count: 6 });
  // Each node's second event waits only for the first event of the same node.
  expect(json.events.map(({ node, replay }: { node: string; replay: object }) => [node, replay])).toEqual(
    [0n, MS / 20n, MS + MS / 10n, MS + (3n * MS) / 20n, 2n * MS + MS / 5n, 2n * MS + MS / 4n].map((offset, i) => [
      i % 2 === 0 ? 'node-a' : 'node-b',
      expect.objectContaining({ index: i, offset_ns: Number(offset) }),
    ]),
  );
});

test('a session outlives an added import, and reports a removed one', async () => {
  const data = recordedOn('node-a', rowsFrom(0n));
  const one = await opening(serve(data));
  mkdirSync(join(data, 'imported'));
  const imported = join(data, 'imported', 'b.kreplay');
  renameSync(recordingPath(recordedOn('node-b', rowsFrom(MS / 20n))), imported);
  // So slow that it has not read the last events ahead.
  const path = await create(one, { speed_factor: 0.01 });
  // The other import has as many events at the same times, but they are not the same events.
  const other = join(data, 'imported', 'c.kreplay');
  renameSync(recordingPath(recordedOn('node-c', rowsFrom(MS / 20n))), other);
  const seen = await post(one, `${path}/step`, { count: 3 });
  expect(seen.json.events.map(({ node }: { node: string }) => node)).toEqual(['node-a', 'node-b', 'node-a']);
  unlinkSync(imported);
  const swapped = await create(one);
  const events = (await post(one, `${swapped}/step`, { count: 3 })).json.events;
  expect(events.map(({ node }: { node: string }) => node)).toEqual(['node-a', 'node-c', 'node-a']);
  const gone = await post(one, `${path}/seek`, { event_index: 2 * COUNT - 10 });
  expect([gone.status, gone.json.code]).toEqual([404, 'event_not_found']);
});
