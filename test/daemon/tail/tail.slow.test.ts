/**
 * Tests live tails over HTTP: events as a writer records them, in order, filtered, and resumed where the client
 * stopped.
 */

import type { RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { stringify } from '../../../daemon/base/exact_json.ts';
import { addTimeTexts } from '../../../daemon/base/time_text.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { REORDER_NS, TAILS_MAX } from '../../../daemon/tail/tails.ts';
import { appendRows, NODE, newFolder, newWriter, type Row, recorded, recordingPath, START } from '../recorded.ts';
import { type Served, serve, served } from '../served.ts';
import { tail } from './tailed.ts';

let folder: string;
let writer: RecordingWriter;
let daemon: Served;

beforeEach(async () => {
  folder = newFolder();
  writer = newWriter(folder);
  daemon = await served(folder);
});
afterEach(() => writer.close());

const write = (...rows: Row[]) => appendRows(writer, rows);
/** Advances the clock until events that started by then are due. */
const due = (at: bigint) => daemon.setNow(START + at + REORDER_NS);
const starts = (frames: readonly { data: { timestamp_ns: number | bigint } }[]) =>
  frames.map(({ data }) => BigInt(data.timestamp_ns) - START);

test('events arrive while they are recorded, in the order of their starts', async () => {
  write({ at: START - 10n * REORDER_NS });
  const client = await tail(daemon);
  expect(client.res.headers['content-type']).toBe('text/event-stream');
  expect(client.res.headers['cache-control']).toBe('no-store');
  write({ at: START + 30n }, { at: START + 10n });
  write({ at: START + 20n }, { at: START + 5_000n });
  due(1000n);
  expect(starts(await client.until(3))).toEqual([10n, 20n, 30n]);
  write({ at: START + 4_000n });
  due(5_000n);
  expect(starts((await client.until(5)).slice(3))).toEqual([4_000n, 5_000n]);
  const { event_id } = client.frames[0]!.data;
  expect(client.frames[0]!.text).toBe((await daemon.get(`/api/events/${event_id}`)).text);
});

test('an event that is recorded out of order is marked', async () => {
  const client = await tail(daemon);
  write({ at: START + 100n });
  due(1000n);
  await client.until(1);
  write({ at: START + 50n }, { at: START + 2000n });
  due(2000n);
  const frames = await client.until(3);
  expect(starts(frames)).toEqual([100n, 50n, 2000n]);
  expect(frames.map(({ data }) => data.late)).toEqual([undefined, true, undefined]);
});

test('values that appear for the first time are selected and excluded', async () => {
  const files = await tail(daemon, '?file=/data/*&exclude_file=/data/tmp/*');
  const others = await tail(daemon, '?exclude_comm=new&exclude_error=EIO');
  write({ at: START + 10n, file: '/data/1', comm: 'new' }, { at: START + 20n, file: '/data/tmp/1', result: -5n });
  due(100n);
  await files.until(1);
  write({ at: START + 110n, file: '/database' }, { at: START + 120n, file: '/data/2', comm: 'new' });
  write({ at: START + 130n, type: 'block_io', comm: 'newer' });
  due(200n);
  expect(starts(await files.until(2))).toEqual([10n, 120n]);
  expect(starts(await others.until(2))).toEqual([110n, 130n]);
});

test('a tail has neither events nor losses of nodes that it excludes', async () => {
  const other = newFolder();
  const otherWriter = newWriter(other, 'other');
  try {
    const both = await served(openRecordingStore(undefined, [folder, other].map(recordingPath)));
    const client = await tail(both, '?exclude_node=other');
    const loss = { cause: 'ring_full', eventType: null, count: 1, fromNs: START, toNs: START + 5n } as const;
    otherWriter.recordLoss(loss);
    appendRows(otherWriter, [{ at: START + 1n }]);
    writer.recordLoss(loss);
    write({ at: START + 2n });
    both.setNow(START + 10n + REORDER_NS);
    const frames = await client.until(2);
    expect(frames.map(({ event, data }) => [event, data.node])).toEqual([
      ['lost', NODE],
      ['event', NODE],
    ]);
  } finally {
    otherWriter.close();
  }
});

test('from may be before or after all events', async () => {
  const before = await tail(daemon, '?from=-1000000d');
  const after = await tail(daemon, `?from=${'9'.repeat(20)}`);
  write({ at: START - 10n });
  due(0n);
  expect(starts(await before.until(1))).toEqual([-10n]);
  expect([after.frames, after.res.destroyed]).toEqual([[], false]);
});

test('from starts in the past and continues live', async () => {
  write(...Array.from({ length: 3000 }, (_, i) => ({ at: START - 5000n + BigInt(i) })));
  const client = await tail(daemon, `?from=${START - 4500n}`);
  due(0n);
  await client.until(2500);
  write({ at: START + 1n });
  due(1n);
  expect(starts(await client.until(2501))).toEqual([...Array.from({ length: 2500 }, (_, i) => BigInt(i) - 4500n), 1n]);
});

test('filters are those of a query', async () => {
  const queries = ['service=pay', 'transaction_id=tx-1', 'pid=7', 'min_duration_ms=1', 'failed=true', 'comm=sh'];
  const clients = await Promise.all(queries.map((query) => tail(daemon, `?${query}`)));
  const rows: Row[] = [{ service: 'pay' }, { transaction: 'tx-1' }, { pid: 7 }, { duration: 1_000_000n }].map(
    (row, i) => ({ ...row, at: START + BigInt(i) }),
  );
  write(...rows, { at: START + 4n, result: -28n }, { at: START + 5n, comm: 'sh' });
  due(100n);
  for (const [i, client] of clients.entries()) expect(starts(await client.until(1))).toEqual([BigInt(i)]);
  const types = await tail(daemon, '?event_type=block_io&node=test-node');
  const nobody = await tail(daemon, '?node=elsewhere');
  write({ at: START + 200n }, { at: START + 201n, type: 'block_io' });
  due(300n);
  expect(starts(await types.until(1))).toEqual([201n]);
  expect(nobody.frames).toEqual([]);
});

test.each(['to=-1m', 'order=desc', 'limit=5', 'cursor=x'])('%s is refused in a tail', async (parameter) => {
  const headers = { accept: 'text/event-stream' };
  const { status, json } = await daemon.get(`/api/events?${parameter}`, { headers });
  expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', parameter.split('=')[0]]);
});

test.each(['?serivce=x', '?pid=x'])('%s is refused', async (query) => {
  expect((await daemon.get(`/api/events${query}`, { headers: { accept: 'text/event-stream' } })).status).toBe(400);
});

test('an id of something else is refused', async () => {
  for (const id of ['1', 'AQ', 'x'.repeat(76)]) {
    const headers = { accept: 'text/event-stream', 'last-event-id': id };
    const { status, json } = await daemon.get('/api/events', { headers });
    expect([status, json.errors[0].parameter]).toEqual([400, 'Last-Event-ID']);
  }
});

test('a reconnecting client receives what it missed, even from another daemon', async () => {
  const first = await tail(daemon);
  write(...Array.from({ length: 10 }, (_, i) => ({ at: START + BigInt(i) })));
  due(4n);
  await first.until(5);
  await first.leave();
  write({ at: START + 2n }, ...Array.from({ length: 10 }, (_, i) => ({ at: START + 10n + BigInt(i) })));
  const other = await served(folder);
  other.setNow(START + 100n + REORDER_NS);
  const second = await tail(other, '', { 'Last-Event-ID': first.frames[4]!.id! });
  const frames = await second.until(16);
  expect(starts(frames)).toEqual([2n, ...Array.from({ length: 15 }, (_, i) => BigInt(i + 5))]);
  expect(new Set([...first.ids(), ...second.ids()]).size).toBe(21);
});

test('losses during the tail are reported', async () => {
  writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START - 9n, toNs: START });
  writer.flush();
  const client = await tail(daemon);
  writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 7, fromNs: START, toNs: START + 9n });
  write({ at: START + 5n });
  due(10n);
  const [lost, event] = await client.until(2);
  expect(lost!.event).toBe('lost');
  expect(lost!.text).toBe(
    stringify({ lost: 7, cause: 'ring_full', ...addTimeTexts({ from: START, to: START + 9n }), node: 'test-node' }),
  );
  expect(event!.event).toBe('event');
  const back = await tail(daemon, '', { 'Last-Event-ID': lost!.id! });
  expect((await back.until(1))[0]!.text).toBe(event!.text);
});

test('all recordings are followed, including new ones', async () => {
  const both = await tail(daemon);
  write({ at: START + 1n });
  const imported = recorded([{ at: START + 2n }]);
  const store = openRecordingStore(folder, [`${imported}/recording.kreplay`]);
  const two = await served(store);
  two.setNow(START + 10n + REORDER_NS);
  due(10n);
  expect(starts(await both.until(1))).toEqual([1n]);
  const back = await tail(two, '', { 'Last-Event-ID': both.frames[0]!.id! });
  expect(starts(await back.until(1))).toEqual([2n]);
});

test('an idle tail is kept alive', async () => {
  const quiet = await tail(await served(folder, { heartbeatEveryMs: 5 }), '?service=nobody');
  write({ at: START + 1n });
  await quiet.until(() => quiet.comments.length >= 3);
  expect(new Set(quiet.comments)).toEqual(new Set(['hb']));
  expect(quiet.frames).toEqual([]);
});

test('a daemon that ends sends where to continue', async () => {
  const ending = await serve(folder);
  const [busy, quiet] = [await tail(ending), await tail(ending, '?service=nobody')];
  write({ at: START + 1n });
  ending.setNow(START + 1n + REORDER_NS);
  await busy.until(1);
  await ending.close();
  expect([await busy.ended, await quiet.ended]).toEqual([true, true]);
  expect([...busy.frames.slice(1), ...quiet.frames].map(({ event, text }) => [event, text])).toEqual([
    ['end', '{"reason":"shutdown"}'],
    ['end', '{"reason":"shutdown"}'],
  ]);
  write({ at: START + 2n });
  due(2n);
  const back = await tail(daemon, '', { 'Last-Event-ID': busy.frames[1]!.id! });
  expect(starts(await back.until(1))).toEqual([2n]);
  // A client that got no event misses none that is recorded before it comes back.
  const late = await tail(daemon, '', { 'Last-Event-ID': quiet.frames[0]!.id! });
  expect(starts(await late.until(1))).toEqual([2n]);
});

test('a HEAD request opens no tail', async () => {
  const { status, headers, text } = await daemon.get('/api/events', {
    method: 'HEAD',
    headers: { accept: 'text/event-stream' },
  });
  expect([status, headers['content-type'], text]).toEqual([200, 'text/event-stream', '']);
});

test('the number of tails is limited, and those that leave make room', async () => {
  const clients = await Promise.all(Array.from({ length: TAILS_MAX }, () => tail(daemon)));
  const headers = { accept: 'text/event-stream' };
  const { status, json } = await daemon.get('/api/events', { headers });
  expect([status, json.code]).toEqual([429, 'tail_limit']);
  write({ at: START + 1n });
  due(1n);
  for (const client of clients) await client.until(1);
  expect(new Set(clients.map(({ frames }) => `${frames[0]!.id} ${frames[0]!.text}`)).size).toBe(1);
  for (const client of clients) await client.leave();
});

test('for a client that does not read nothing is read, and it receives everything when it reads again', async () => {
  const EVENTS = 40_009;
  const slow = await tail(daemon);
  slow.res.pause();
  const fast = await tail(daemon);
  write(...Array.from({ length: EVENTS }, (_, i) => ({ at: START + BigInt(i), file: `/a/long/path/${i}` })));
  due(BigInt(EVENTS));
  await fast.until(EVENTS);
  expect(slow.res.readableLength).toBeLessThan(1 << 20);
  expect(slow.frames).toEqual([]);
  slow.res.resume();
  await slow.until(EVENTS);
  expect(slow.ids()).toEqual(fast.ids());
  expect(new Set(slow.ids()).size).toBe(EVENTS);
});
