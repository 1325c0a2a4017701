/** Tests replay over real HTTP, of a real recording, in real time. No test has an upper bound on time. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { parseJson } from '../../../daemon/base/exact_json.ts';
import { type Row, recorded, START } from '../recorded.ts';
import { type Answer, type Served, serve } from '../served.ts';
import { type Frame, framesOf } from './frames.ts';

const MS = 1_000_000n;
const SESSIONS = '/api/replay/sessions';

const ROWS: Row[] = [
  ...Array.from({ length: 101 }, (_, n) => ({
    at: START + BigInt(n) * (MS / 2n) + 1n,
    duration: 40_000n,
    transaction: 'tx-1',
    tid: 100 + (n % 3),
    file: `/data/\n\nevent: end\r${n}`,
  })),
  { type: 'block_io' as const, at: START + 51n * MS, duration: 2n * MS, transaction: 'tx-1', bytes: 2n ** 63n - 1n },
  { at: START + 5n * MS, transaction: 'another' },
];
const EVENT_COUNT = 102;

let served: Served;
beforeAll(async () => {
  served = await serve(recorded(ROWS));
});
afterAll(() => served.close());

function send(method: string, path: string, body?: unknown): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  return served.get(path, { method, headers, ...(body !== undefined && { body: text }) });
}

async function create(more: object = {}): Promise<string> {
  const { status, json } = await send('POST', SESSIONS, { transaction_id: 'tx-1', ...more });
  expect(status).toBe(201);
  return `${SESSIONS}/${json.session_id}`;
}

/** Reads until the daemon ends the stream, or `enough` returns true. */
async function collect(res: IncomingMessage, enough: (text: string) => boolean = () => false): Promise<Frame[]> {
  let text = '';
  res.setEncoding('utf8');
  for await (const chunk of res) {
    text += chunk;
    if (enough(text)) break;
  }
  return framesOf(text);
}

const eventsIn = (frames: readonly Frame[]) => frames.filter(({ event }) => event === 'event');
const indexesIn = (frames: readonly Frame[]) => eventsIn(frames).map(({ data }) => data.replay.index);
const ALL = Array.from({ length: EVENT_COUNT }, (_, index) => index);

test('a created session has a location, which shows the same session', async () => {
  const answer = await send('POST', SESSIONS, { transaction_id: 'tx-1' });
  expect(answer.status).toBe(201);
  const { session_id } = answer.json;
  expect(answer.headers.location).toBe(`sessions/${session_id}`);
  expect(answer.json).toEqual({
    session_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/),
    transaction_id: 'tx-1',
    speed_factor: 1,
    extra_latency_ns: 0,
    timeout_ns: null,
    max_gap_ns: null,
    clock: [{ node: 'test-node', offset_ns: 0, stepped_ns: 0, source: 'none', uncertainty_ns: null }],
    loop: false,
    only: {},
    state: 'ready',
    position_ns: 0,
    duration_ns: 52_999_999,
    replay_duration_ns: 52_999_999,
    replay_end_ns: 52_999_999,
    event_index: 0,
    event_count: EVENT_COUNT,
    times_out: false,
    timeout_event_id: null,
    ...{ rounds: 0, until: null, starts_at_ns: null },
    lateness: { p50_ns: 0, p99_ns: 0, max_ns: 0, late_events: 0 },
    starvations: 0,
    failure: null,
    last_event_id: 0,
    created_at: '2025-11-21T00:00:00.000Z',
    updated_at: '2025-11-21T00:00:00.000Z',
  });
  expect((await served.get(`/api/replay/${answer.headers.location}`)).json).toEqual(answer.json);
  const { sessions } = (await served.get(SESSIONS)).json;
  expect(sessions).toContainEqual(answer.json);
});

test('the stream plays every event once, in order and never early, and ends', async () => {
  const path = await create();
  const stream = await served.open(`${path}/events`);
  expect(stream.statusCode).toBe(200);
  expect(stream.headers).toMatchObject({
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  expect((await send('POST', `${path}/play`)).json).toMatchObject({ state: 'playing' });
  const frames = await collect(stream);
  expect(indexesIn(frames)).toEqual(ALL);
  expect(frames.filter(({ event }) => event === 'state').map(({ data }) => data.state)).toEqual([
    'ready',
    'playing',
    'finished',
  ]);
  expect(frames.at(-1)).toMatchObject({ event: 'end', data: { reason: 'finished' } });
  // Events that came in one frame share an id.
  const ids = [...new Set(frames.map(({ id }) => Number(id)))];
  expect(ids).toEqual(ids.map((_, index) => index));

  const [first] = eventsIn(frames);
  for (const { data } of eventsIn(frames)) {
    const { offset_ns, due_ns, lateness_ns } = data.replay;
    expect(lateness_ns).toBeGreaterThanOrEqual(0);
    expect(BigInt(due_ns) - BigInt(first!.data.replay.due_ns)).toBe(BigInt(offset_ns));
    expect(BigInt(data.timestamp_ns)).toBe(START + 1n + BigInt(offset_ns));
  }
  const session = (await served.get(path)).json;
  expect(session).toMatchObject({ state: 'finished', event_index: EVENT_COUNT, position_ns: 52_999_999 });
  expect(session.lateness.max_ns).toBeGreaterThanOrEqual(session.lateness.p50_ns);
});

test('an event of the stream is the event of the query plus its replay fields', async () => {
  const path = await create();
  const stream = await served.open(`${path}/events`);
  const { json, text } = await send('POST', `${path}/step`, { count: 1000 });
  const { events } = parseJson((await served.get('/api/events?transaction_id=tx-1')).text) as { events: object[] };
  const frames = await collect(stream, (got) => framesOf(got).length >= EVENT_COUNT + 2);
  expect(eventsIn(frames).map(({ data: { replay, ...event } }) => event)).toEqual(events);
  expect(json.events.map((event: { replay: { index: number } }) => event.replay.index)).toEqual(ALL);
  expect(json.session).toMatchObject({ state: 'paused', event_index: EVENT_COUNT });
  expect(text).toContain('"bytes":9223372036854775807,');
});

test('the speed is changed during playback', async () => {
  const path = await create({ speed_factor: 0.001 });
  const stream = await served.open(`${path}/events`);
  await send('POST', `${path}/play`);
  const changed = await send('PATCH', path, { speed_factor: 20 });
  expect([changed.status, changed.json]).toMatchObject([200, { state: 'playing', speed_factor: 20 }]);
  expect(indexesIn(await collect(stream))).toEqual(ALL);
  expect((await send('PATCH', path, { speed_factor: 0 })).json).toMatchObject({ code: 'invalid_body' });
  expect((await send('PATCH', path, {})).json.errors).toMatchObject([
    { message: expect.stringContaining('speed_factor') },
  ]);
  await send('POST', `${path}/stop`);
  expect(await send('PATCH', path, { speed_factor: 2 })).toMatchObject({ status: 409 });
});

test('a timeline gives the time of each event, page by page or as lines', async () => {
  const path = await create({ extra_latency_ns: 1_000_000, timeout_ns: 60_000_000 });
  const lines = (await served.lines(`${path}/timeline`)).map(parseJson) as Record<string, unknown>[];
  expect(lines.map(({ replay_index }) => replay_index)).toEqual(ALL);
  const paged: unknown[] = [];
  for (let next: number | null = 0; next !== null; ) {
    const { status, text } = await served.get(`${path}/timeline?event_index=${next}&limit=40`);
    expect(status).toBe(200);
    const page = parseJson(text) as { events: unknown[]; next_event_index: number | null };
    paged.push(...page.events);
    next = page.next_event_index;
  }
  expect(paged).toEqual(lines);
  await send('PATCH', path, { speed_factor: 1000 });
  const stream = await served.open(`${path}/events`);
  await send('POST', `${path}/play`);
  const played = eventsIn(await collect(stream)).map(({ data: { replay, ...event } }) => ({
    ...event,
    replay_index: replay.index,
    replay_offset_ns: replay.offset_ns,
    replay_duration_ns: replay.duration_ns,
    after_timeout: replay.after_timeout,
  }));
  expect(played).toEqual(lines);
  expect(lines.some(({ after_timeout }) => after_timeout)).toBe(true);
  expect((await served.get(`${path}/timeline?event_index=5000`)).json).toEqual({ events: [], next_event_index: null });
  expect((await served.get(`${path}/timeline?from=1`)).json.code).toBe('invalid_parameter');
});

test('the effect of a latency is returned without a session', async () => {
  const asked = { transaction_id: 'tx-1', extra_latency_ns: 1_000_000, timeout_ns: 60_000_000, limit: 3 };
  const { status, json } = await send('POST', '/api/replay/whatif', asked);
  expect(status).toBe(200);
  const path = await create({ extra_latency_ns: 1_000_000, timeout_ns: 60_000_000 });
  const { event_count, duration_ns, replay_duration_ns, times_out } = (await served.get(path)).json;
  // One of its events is a request.
  const affected_count = event_count - 1;
  expect(json).toMatchObject({ event_count, duration_ns, replay_duration_ns, times_out, affected_count });
  const late = (await served.get(`${path}/timeline`)).json.events.filter(
    (event: { after_timeout: boolean }) => event.after_timeout,
  );
  expect(json.after_timeout_count).toBe(late.length);
  const placesOf = (events: { event_id: string; replay_offset_ns: number }[]) =>
    events.map(({ event_id, replay_offset_ns }) => [event_id, replay_offset_ns]);
  expect(placesOf(json.after_timeout)).toEqual(placesOf(late.slice(0, 3)));
  const only = await send('POST', '/api/replay/whatif', { ...asked, only: { event_type: ['block_io'] } });
  expect(only.json).toMatchObject({ affected_count: 1, times_out: false });
  for (const wrong of [{ only: { event_type: ['nothing'] } }, { only: { type: 'x' } }, { timeout_ns: 0 }])
    expect((await send('POST', '/api/replay/whatif', { ...asked, ...wrong })).json.code).toBe('invalid_body');
  expect((await send('POST', '/api/replay/whatif', { transaction_id: 'no' })).json.code).toBe('transaction_not_found');
});

test('a broken connection is resumed without loss or repetition', async () => {
  const path = await create();
  const first = await collectSome(`${path}/events`, 30, () => send('POST', `${path}/play`));
  const rest = await collect(await served.open(`${path}/events`, { headers: { 'last-event-id': first.at(-1)!.id! } }));
  expect([...indexesIn(first), ...indexesIn(rest)]).toEqual(ALL);
  expect(rest.at(-1)!.event).toBe('end');
});

test('a late client receives everything from the start on request', async () => {
  const path = await create({ speed_factor: 20 });
  const watched = await served.open(`${path}/events`);
  await send('POST', `${path}/play`);
  const seen = await collect(watched);
  const late = await served.open(`${path}/events`, { headers: { 'last-event-id': '0' } });
  const all = await collect(late);
  expect(indexesIn(all)).toEqual(ALL);
  // The first viewer also got the state at its arrival.
  expect(all).toEqual(seen.slice(1));
});

/** Returns at least the first `count` frames, all those with the last id, and then cuts the connection. */
async function collectSome(path: string, count: number, begin: () => Promise<unknown>): Promise<Frame[]> {
  const stream = await served.open(path);
  await begin();
  const frames = await collect(stream, (text) => framesOf(text).length >= count);
  stream.destroy();
  const { id } = frames[count - 1]!;
  return frames.slice(0, frames.findLastIndex((frame) => frame.id === id) + 1);
}

test('all clients receive the same', async () => {
  const path = await create({ speed_factor: 10 });
  const streams = await Promise.all(Array.from({ length: 100 }, () => served.open(`${path}/events`)));
  await send('POST', `${path}/play`);
  const seen = await Promise.all(streams.map((stream) => collect(stream)));
  for (const frames of seen) expect(frames).toEqual(seen[0]);
  expect(indexesIn(seen[0]!)).toEqual(ALL);
});

test('a client that never reads delays no other client', async () => {
  const path = await create({ speed_factor: 10 });
  const stuck = connect(served.port, '127.0.0.1');
  await once(stuck, 'connect');
  stuck.pause();
  stuck.write(`GET ${path}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
  const stream = await served.open(`${path}/events`);
  await send('POST', `${path}/play`);
  expect(indexesIn(await collect(stream))).toEqual(ALL);
  stuck.destroy();
});

test('a late client receives the state first; a client after the end receives the end', async () => {
  const path = await create();
  await send('POST', `${path}/seek`, { event_index: 50 });
  await send('POST', `${path}/play`);
  const frames = await collect(await served.open(`${path}/events`));
  expect(frames[0]!.event).toBe('state');
  expect(indexesIn(frames)).toEqual(ALL.slice(EVENT_COUNT - indexesIn(frames).length));
  const late = await collect(await served.open(`${path}/events`));
  expect(late.map(({ event }) => event)).toEqual(['state', 'end']);
});

test('a stopped session sends 204 to a reconnecting browser', async () => {
  const path = await create();
  const stream = await served.open(`${path}/events`);
  await send('POST', `${path}/stop`);
  const frames = await collect(stream);
  expect(frames.at(-1)).toMatchObject({ event: 'end', data: { reason: 'stopped' } });
  const again = await served.get(`${path}/events`, { headers: { 'last-event-id': frames.at(-1)!.id! } });
  expect(again.status).toBe(204);
});

test('deleting ends the stream and the session', async () => {
  const path = await create();
  const stream = await served.open(`${path}/events`);
  const { status, text } = await send('DELETE', path);
  expect([status, text]).toEqual([204, '']);
  expect((await collect(stream)).at(-1)).toMatchObject({ event: 'end', data: { reason: 'deleted' } });
  for (const [method, at] of [
    ['GET', path],
    ['DELETE', path],
    ['POST', `${path}/play`],
    ['GET', `${path}/events`],
  ] as const)
    expect((await send(method, at)).json).toMatchObject({ status: 404, code: 'session_not_found' });
});

test('concurrent commands are applied one by one', async () => {
  const path = await create({ speed_factor: 0.001 });
  const commands = ['play', 'pause', 'play', 'play', 'pause', 'pause', 'stop', 'stop', 'play', 'pause'];
  const answers = await Promise.all(commands.map((command) => send('POST', `${path}/${command}`)));
  for (const { status, json } of answers) {
    if (status === 200) expect(['playing', 'paused', 'stopped']).toContain(json.state);
    else expect(json).toMatchObject({ status: 409, code: 'invalid_transition' });
  }
  expect((await served.get(path)).json.state).toBe('stopped');
});

test('64-bit numbers in a request are exact', async () => {
  const path = await create({ extra_latency_ns: 3_600_000_000_000 });
  await send('POST', `${path}/seek`, `{"timestamp_ns": ${START + 5n * MS + 1n}}`);
  const { text } = await served.get(path);
  expect(text).toContain('"extra_latency_ns":3600000000000,');
  // The tenth event is the first at or after it, and the fourth of its thread.
  expect(text).toContain(`"position_ns":${3n * 3_600_000_000_000n + 5n * MS},`);
});

describe('requests that are refused', () => {
  test.each([
    ['{}', 'transaction_id', 'is required'],
    ['{"transaction_id":""}', 'transaction_id', 'empty'],
    ['{"transaction_id":7}', 'transaction_id', 'string'],
    ['{"transaction_id":"tx-1","speed":2}', 'speed', 'unknown field'],
    ['{"transaction_id":"tx-1","loop":1}', 'loop', 'boolean'],
    ['{"transaction_id":"tx-1","max_gap_ns":-1}', 'max_gap_ns', 'at least 0'],
    ['{"transaction_id":"tx-1","speed_factor":0}', 'speed_factor', 'at least'],
    ['{"transaction_id":"tx-1","speed_factor":1001}', 'speed_factor', 'at most'],
    ['{"transaction_id":"tx-1","speed_factor":"2"}', 'speed_factor', 'number'],
    ['{"transaction_id":"tx-1","speed_factor":null}', 'speed_factor', 'number'],
    ['{"transaction_id":"tx-1","extra_latency_ns":1.5}', 'extra_latency_ns', 'integer'],
    ['{"transaction_id":"tx-1","extra_latency_ns":"5"}', 'extra_latency_ns', 'integer'],
    ['{"transaction_id":"tx-1","extra_latency_ns":-1}', 'extra_latency_ns', 'at least'],
    ['{"transaction_id":"tx-1","extra_latency_ns":3600000000001}', 'extra_latency_ns', 'at most'],
    ['{"transaction_id":"tx-1","extra_latency_ns":9007199254740993}', 'extra_latency_ns', 'at most'],
    ['{"transaction_id":"tx-1","timeout_ns":0}', 'timeout_ns', 'at least'],
  ])('creating with %s', async (body, field, message) => {
    const { status, json } = await send('POST', SESSIONS, body);
    expect(status).toBe(400);
    expect(json.code).toBe('invalid_body');
    expect(json.errors).toEqual([{ pointer: `/${field}`, message: expect.stringContaining(message) }]);
  });

  test.each([
    ['seek', '{}'],
    ['seek', '{"position_ns":1,"event_index":1}'],
    ['seek', '{"position_ns":1.5}'],
    ['seek', '{"position_ns":"1"}'],
    ['seek', '{"where":1}'],
    ['step', '{"count":0}'],
    ['step', '{"count":10001}'],
    ['step', '{"count":1.5}'],
    ['play', '{"speed":2}'],
    ['pause', '[]'],
    ['stop', '{"now":true}'],
  ])('%s with %s', async (command, body) => {
    const path = await create();
    const { status, json } = await send('POST', `${path}/${command}`, body);
    expect([status, json.code]).toEqual([400, 'invalid_body']);
    expect((await served.get(path)).json.state).toBe('ready');
  });

  test('an unknown transaction, session, event or path', async () => {
    const path = await create();
    expect((await send('POST', SESSIONS, { transaction_id: 'nope' })).json.code).toBe('transaction_not_found');
    expect((await served.get(`${SESSIONS}/nope`)).json.code).toBe('session_not_found');
    expect((await send('POST', `${path}/seek`, { event_id: 'nope' })).json).toMatchObject({
      status: 404,
      code: 'event_not_found',
    });
    expect((await served.get(`${path}/nothing`)).status).toBe(404);
    expect((await send('PUT', path, { speed_factor: 2 })).status).toBe(405);
    expect((await send('GET', `${path}/play`)).headers.allow).toBe('POST');
    expect((await served.get(`${path}?speed=2`)).json.code).toBe('invalid_parameter');
  });

  test.each(['abc', '-1', '1.5', '999999'])('Last-Event-ID %s', async (id) => {
    const { status, json } = await served.get(`${await create()}/events`, { headers: { 'last-event-id': id } });
    expect([status, json.code]).toEqual([400, 'invalid_parameter']);
    expect(json.errors[0].parameter).toBe('Last-Event-ID');
  });

  test('HEAD of a stream is answered without blocking', async () => {
    const { status, headers } = await served.get(`${await create()}/events`, { method: 'HEAD' });
    expect([status, headers['content-type']]).toEqual([200, 'text/event-stream']);
  });
});

test('closing the daemon ends every stream', async () => {
  const other = await serve(recorded(ROWS));
  const { text } = await other.get(SESSIONS, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"transaction_id":"tx-1","speed_factor":0.001}',
  });
  const path = `${SESSIONS}/${JSON.parse(text).session_id}`;
  const streams = await Promise.all([1, 2, 3].map(() => other.open(`${path}/events`)));
  await other.get(`${path}/play`, { method: 'POST' });
  const collected = Promise.all(streams.map((stream) => collect(stream)));
  await other.close();
  for (const frames of await collected)
    expect(frames.at(-1)).toMatchObject({ event: 'end', data: { reason: 'shutdown' } });
});
