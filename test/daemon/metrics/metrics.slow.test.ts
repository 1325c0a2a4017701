/** Tests /metrics: its numbers equal those of the API, and a missing or broken source does not hide the others. */
import { once } from 'node:events';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Registry } from '@prometheus-io/client';
import fc from 'fast-check';
import { createRecordingMetrics } from '../../../daemon/metrics/metrics.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { RecordingState } from '../../../daemon/store/store.ts';
import { newFolder, recorded, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, served } from '../served.ts';
import { samplesOf, total, valuesOf } from './scraped.ts';

async function scrape({ get }: Served) {
  const { status, headers, text } = await get('/metrics');
  expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
  return samplesOf(text);
}

const NS = 1_000_000_000n;

test('recorded and lost events are counted as in the API', async () => {
  const rows = Array.from({ length: 61 }, (_, i) => ({ at: START + BigInt(i) * NS }));
  const folder = recorded(rows, (writer) => {
    const when = { fromNs: START, toNs: START + NS };
    writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 7, ...when });
    writer.recordLoss({ cause: 'ring_full', eventType: 'block_io', count: 4, ...when });
    writer.recordLoss({ cause: 'definition_lost', eventType: null, count: 2, ...when });
  });
  const one = await served(folder);
  const samples = await scrape(one);
  const { events, coverage } = (await one.get('/api/events')).json;
  const live = { node: 'test-node', source: 'live' };
  expect(valuesOf(samples, 'kreplay_recording_events', live)).toEqual([events.length]);
  expect(total(samples, 'kreplay_recording_lost_events', live)).toBe(coverage.lost);
  expect(valuesOf(samples, 'kreplay_recording_lost_events', { ...live, cause: 'ring_full' })).toEqual([11]);
  expect(valuesOf(samples, 'kreplay_recording_lost_events', { ...live, cause: 'no_memory' })).toEqual([0]);
  expect(valuesOf(samples, 'kreplay_recording_oldest_event_timestamp_seconds')).toEqual([Number(START / NS)]);
  expect(valuesOf(samples, 'kreplay_recording_last_event_timestamp_seconds')).toEqual([Number(START / NS) + 60]);
  expect(valuesOf(samples, 'kreplay_recording_limit_bytes')).toEqual([1 << 30]);
  expect(valuesOf(samples, 'kreplay_recording_size_bytes')[0]).toBeGreaterThan(4096);
  expect([total(samples, 'kreplay_ready'), total(samples, 'kreplay_agent_up')]).toEqual([1, 0]);
  expect(valuesOf(samples, 'kreplay_agent_recording')).toEqual([0]);
  expect(valuesOf(samples, 'kreplay_events_recorded_total')).toEqual([]);
});

test('files of one node and source are one series', async () => {
  const folder = recorded([{ at: START }]);
  mkdirSync(join(folder, 'imported'));
  for (const name of ['a', 'b'])
    renameSync(recordingPath(recordedOn('far', [{ at: START }])), join(folder, 'imported', `${name}.kreplay`));
  const samples = await scrape(await served(folder));
  expect(valuesOf(samples, 'kreplay_recording_events', { node: 'far', source: 'imported' })).toEqual([2]);
  expect(valuesOf(samples, 'kreplay_recording_events', { source: 'live' })).toEqual([1]);
});

test('an unreadable recording is a metric', async () => {
  const folder = newFolder();
  const one = await served(folder);
  expect(total(await scrape(one), 'kreplay_ready')).toBe(0);
  writeFileSync(recordingPath(folder), 'no recording'.repeat(100));
  const samples = await scrape(one);
  expect([total(samples, 'kreplay_ready'), total(samples, 'kreplay_build_info')]).toEqual([0, 1]);
  expect(valuesOf(samples, 'kreplay_recording_events')).toEqual([]);
});

test('errors are counted by code, and closed connections by reason', async () => {
  const one = await served(recorded([{ at: START }]));
  const before = await scrape(one);
  expect(valuesOf(before, 'kreplay_http_problems_total', { code: 'unauthorized' })).toEqual([0]);
  expect(valuesOf(before, 'kreplay_connections_closed_total', { reason: 'turned_away' })).toEqual([0]);
  for (const path of ['/nothing', '/nothing', '/api/events?limit=0']) await one.get(path);
  for (const text of ['hello\r\n\r\n', `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`]) {
    const socket = connect(one.port, '127.0.0.1');
    socket.write(text);
    await once(socket.resume(), 'close');
  }
  const after = await scrape(one);
  const grown = (name: string, label: string) =>
    after
      .filter((sample) => sample.name === name && sample.value > 0)
      .map(({ labels, value }) => `${labels[label]} ${value}`)
      .sort();
  expect(grown('kreplay_http_problems_total', 'code')).toEqual(['invalid_parameter 1', 'not_found 2']);
  expect(grown('kreplay_connections_closed_total', 'reason')).toEqual(['header_too_large 1', 'malformed 1']);
});

test('requests are counted by route and never by their parameters', async () => {
  const one = await served(recorded([{ at: START }]));
  for (const path of [
    '/api/events',
    '/api/events',
    '/api/events/secret-1',
    '/secret-2?secret-3',
    '/api/events?secret-4',
  ])
    await one.get(path);
  const { text } = await one.get('/metrics');
  const count = (route: string, status: string) =>
    total(samplesOf(text), 'kreplay_http_request_duration_seconds_count', { method: 'GET', route, status });
  expect(count('/api/events', '200')).toBe(2);
  expect(count('/api/events', '400')).toBe(1);
  expect(count('/api/events/:event_id', '404')).toBe(1);
  expect(count('none', '404')).toBe(1);
  expect(text).not.toContain('secret');
});

test('sessions, streams and lateness are metrics', async () => {
  const rows = Array.from({ length: 23 }, (_, i) => ({ at: START + BigInt(i), transaction: 'tx' }));
  const one = await served(recorded(rows));
  const headers = { 'content-type': 'application/json' };
  const body = '{"transaction_id":"tx"}';
  const { json } = await one.get('/api/replay/sessions', { method: 'POST', headers, body });
  await one.get('/api/replay/sessions', { method: 'POST', headers, body });
  const path = `/api/replay/sessions/${json.session_id}`;
  const stream = await one.open(`${path}/events`);
  let samples = await scrape(one);
  expect(total(samples, 'kreplay_open_streams', { kind: 'server_sent_events' })).toBe(1);
  expect(total(samples, 'kreplay_replay_sessions', { state: 'ready' })).toBe(2);

  await one.get(`${path}/play`, { method: 'POST' });
  // The stream ends when playback does.
  stream.resume();
  await once(stream, 'end');
  samples = await scrape(one);
  expect(total(samples, 'kreplay_open_streams')).toBe(0);
  expect(total(samples, 'kreplay_replay_sessions', { state: 'finished' })).toBe(1);
  expect(total(samples, 'kreplay_replay_lateness_seconds_count')).toBe(23);
  // The time that a stream stays open is not a request latency.
  expect(
    valuesOf(samples, 'kreplay_http_request_duration_seconds_count', { route: '/api/replay/sessions/:id/events' }),
  ).toEqual([]);
});

const REPORT = {
  node: 'n',
  start_time_seconds: 1,
  cpu_seconds: 2,
  resident_bytes: 3,
  ring: { count: 1, size_bytes: 4, pending_bytes: 5, peak_bytes: 6 },
  recorded: { sys_write: 7 },
  lost: [{ cause: 'ring_full', event_type: null, count: 8 }],
  commits: { bounds_seconds: [0.1], counts: [9, 1], sum_seconds: 11 },
};
const valid = JSON.stringify({ ...REPORT, later: 'more' });

test.each<[string, number, (socket: Socket) => void]>([
  ['sends unknown metrics', 1, (socket) => socket.end(valid)],
  ['sends its answer in chunks', 1, (socket) => socket.write(valid.slice(0, 9), () => socket.end(valid.slice(9)))],
  ['is cut short', 0, (socket) => socket.end(valid.slice(0, -1))],
  ['sends nothing', 0, (socket) => socket.end()],
  ['never answers', 0, () => {}],
  ['sends garbage', 0, (socket) => socket.end(JSON.stringify({ ...REPORT, ring: { count: 1, size_bytes: 'NaN' } }))],
  ['has buckets without bounds', 0, (socket) => socket.end(valid.replace('[9,1]', '[9,1,1,1]'))],
  ['talks without end', 0, (socket) => socket.write('1'.repeat(1 << 20))],
])('an agent that %s', async (_name, up, answer) => {
  const folder = recorded([{ at: START }]);
  const sockets = new Set<Socket>();
  const agent = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    answer(socket);
  }).listen(join(folder, 'agent.sock'));
  await once(agent, 'listening');
  const samples = await scrape(await served(folder));
  expect(total(samples, 'kreplay_agent_up')).toBe(up);
  expect(valuesOf(samples, 'kreplay_events_recorded_total')).toEqual(up ? [7] : []);
  expect(total(samples, 'kreplay_events_lost_total')).toBe(up ? 8 : 0);
  expect(valuesOf(samples, 'kreplay_agent_commit_duration_seconds_bucket')).toEqual(up ? [9, 10] : []);
  expect(valuesOf(samples, 'kreplay_recording_events')).toEqual([1]);
  for (const socket of sockets) socket.destroy();
  agent.close();
});

test('a daemon that serves only files queries no agent', async () => {
  const samples = await scrape(await served(openRecordingStore(undefined, [recordingPath(recorded([{ at: START }]))])));
  expect([total(samples, 'kreplay_agent_up'), total(samples, 'kreplay_ready')]).toEqual([0, 1]);
  expect(valuesOf(samples, 'kreplay_recording_events', { source: 'named' })).toEqual([1]);
});

test('concurrent scrapes are each complete', async () => {
  const one = await served(recorded([{ at: START }]));
  const all = await Promise.all(Array.from({ length: 8 }, () => scrape(one)));
  for (const samples of all) expect(valuesOf(samples, 'kreplay_recording_events')).toEqual([1]);
});

const STATE: Omit<RecordingState, 'node'> = {
  recordingId: '0'.repeat(16),
  source: 'live',
  sizeBytes: 1,
  limitBytes: null,
  eventCount: 5,
  firstTimestampNs: null,
  lastTimestampNs: null,
  lastWriter: null,
  lost: [],
};

test('any node name is read back unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.string({ unit: 'binary' }), { maxLength: 4 }), async (nodes) => {
      const registry = new Registry();
      createRecordingMetrics(registry).set(
        nodes.map((node) => ({ ...STATE, node })),
        START,
      );
      const samples = samplesOf(await registry.metrics());
      const read = samples.filter(({ name }) => name === 'kreplay_recording_events').map(({ labels }) => labels.node);
      expect(read).toEqual(nodes);
    }),
    { examples: [[['a"b', 'c\\d', 'e\nf', '\\n', '\\"}']]] },
  );
});
