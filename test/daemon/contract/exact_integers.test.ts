/**
 * Tests every answer that carries 64-bit integers at 2^53 + 1, the first that a double does not hold, and at 2^63 - 1,
 * the largest. Answers are compared as bytes, since JSON.parse rounds a wrong and a right number to the same double.
 */
import { openApiDocument } from '../../../daemon/contract/openapi.ts';
import { NODE, newFolder, newWriter, type Row, recorded, START } from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';
import { tail } from '../tail/tailed.ts';

const SMALL = 2n ** 53n + 1n;
const LARGE = 2n ** 63n - 1n;
const SMALL_TIME = '1970-04-15T05:59:59.254740993Z';
const LARGE_TIME = '2262-04-11T23:47:16.854775807Z';

const WRITE: Row = { at: SMALL, duration: SMALL, transaction: 'tx', requested: LARGE, result: LARGE };
const BLOCK: Row = {
  type: 'block_io',
  at: LARGE,
  duration: 0n,
  transaction: 'tx',
  ...{ sector: SMALL, bytes: LARGE, queue: SMALL },
  origins: [{ transaction: 'tx', bytes: SMALL }],
};
/** Its duration is the longest that the format can hold. */
const LONGEST: Row = { at: 0n, duration: LARGE, transaction: 'longest', result: SMALL };

let served: Served;
/** Ids of the events above, by event number. */
let ids: string[];
beforeAll(async () => {
  const folder = recorded([WRITE, BLOCK, LONGEST], (writer) =>
    writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 1, fromNs: SMALL, toNs: LARGE }),
  );
  served = await serve(folder);
  // The clock is set so far ahead that no recorded event lies in the future.
  served.setNow(LARGE);
  const { json } = await served.get('/api/events?order=desc');
  const recordingId = json.events[0].event_id.slice(0, 16);
  ids = [0, 1, 2].map((number) => `${recordingId}-${number.toString(16).padStart(16, '0')}`);
});
afterAll(() => served.close());

const common = (transaction: string) =>
  `"service_name":"shop","transaction_id":"${transaction}","trace_id":null,"span_id":null,` +
  `"attribution":{"source":"marker","quality":"exact"},"node":"${NODE}","pid":100,"tid":100,"comm":"node","cpu":0,`;
const file = '"file":null,"file_kind":"unknown",';

const write = () =>
  `{"event_id":"${ids[0]}","event_type":"sys_write","timestamp_ns":9007199254740993,"timestamp":"${SMALL_TIME}",` +
  `"duration_ns":9007199254740993,` +
  `${common('tx')}"result":9223372036854775807,"error":null,${file}"bytes_requested":9223372036854775807,"fd":1,` +
  `"syscall":"write"}`;
const block = () =>
  `{"event_id":"${ids[1]}","event_type":"block_io","timestamp_ns":9223372036854775807,"timestamp":"${LARGE_TIME}","duration_ns":0,${common('tx')}` +
  `"result":64,"error":null,"sector":9007199254740993,"bytes":9223372036854775807,"queue_ns":9007199254740993,` +
  `"operation":"write","unnamed_bytes":0,"device":"sda","queued_by":null,"origins":[{"service_name":"shop","transaction_id":"tx","bytes":9007199254740993}]}`;
const longest = () =>
  `{"event_id":"${ids[2]}","event_type":"sys_write","timestamp_ns":0,"timestamp":"1970-01-01T00:00:00.000000000Z","duration_ns":9223372036854775807,` +
  `${common('longest')}"result":9007199254740993,"error":null,${file}"bytes_requested":null,"fd":1,"syscall":"write"}`;

const SPAN = `"from":9007199254740993,"from_time":"${SMALL_TIME}","to":9223372036854775807,"to_time":"${LARGE_TIME}"`;
const GAP = `{${SPAN},"lost":1,"cause":"ring_full","node":"${NODE}"}`;

const textOf = async (path: string, sent?: object) => (await served.get(path, sent)).text;
const eventsOf = async (query: string) => {
  const text = await textOf(`/api/events?${query}`);
  return text.slice('{"events":['.length, text.indexOf('],"next_cursor"'));
};
const post = (path: string, body: string) =>
  textOf(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } });

test('events, as a page, individually and as lines', async () => {
  const all = [longest(), write(), block()];
  expect(await eventsOf('')).toBe(all.join(','));
  expect(await eventsOf('order=desc')).toBe(all.toReversed().join(','));
  expect(await textOf('/api/events', { headers: { accept: 'application/x-ndjson' } })).toBe(`${all.join('\n')}\n`);
  for (const [i, event] of [write(), block(), longest()].entries())
    expect(await textOf(`/api/events/${ids[i]}`)).toBe(event);
});

test('a live tail', async () => {
  served.setNow(LARGE + START);
  const client = await tail(served, '?from=9007199254740993');
  await client.until(2);
  expect(client.frames.map(({ text }) => text)).toEqual([write(), block()]);
  await client.leave();
  served.setNow(LARGE);
});

test('losses in a live tail', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const daemon = await servedHere(folder);
  const client = await tail(daemon);
  writer.recordLoss({ cause: 'ring_full', eventType: null, count: 1, fromNs: SMALL, toNs: LARGE });
  writer.flush();
  const [frame] = await client.until(1);
  expect(frame!.text).toBe(`{"lost":1,"cause":"ring_full",${SPAN},"node":"${NODE}"}`);
  await client.leave();
  writer.close();
});

test.each([
  ['from=9007199254740993&to=9007199254740994', write],
  ['from=1970-04-15T05:59:59.254740993Z&to=1970-04-15T05:59:59.254740994Z', write],
  ['from=9223372036854775807', block],
  ['from=2262-04-11T23:47:16.854775807Z', block],
  ['from=9007199254740993&to=9223372036854775807', write],
  ['min_duration_ms=9007199254.740993&max_duration_ms=9007199254.740993', write],
  ['min_duration_ms=9223372036854.775807', longest],
  ['from=9007199254740994&to=9223372036854775807', () => ''],
  ['min_duration_ms=9007199254.740994&max_duration_ms=9223372036854.775806', () => ''],
])('events?%s', async (query, expected) => {
  expect(await eventsOf(query)).toBe(expected());
});

test.each([
  'from=9007199254740993.5',
  'min_duration_ms=9223372036854.775808',
  'from=18446744073709551616000',
  'to=1e18',
])('events?%s is refused, not rounded', async (query) =>
  expect((await served.get(`/api/events?${query}`)).status).toBe(400),
);

test('pages', async () => {
  const first = await served.get('/api/events?limit=1');
  const second = await served.get(`/api/events?limit=1&cursor=${first.json.next_cursor}`);
  expect(second.text).toContain(`{"events":[${write()}],`);
  expect(await textOf(`/api/events?limit=1&cursor=${second.json.next_cursor}`)).toContain(`{"events":[${block()}],`);
});

test('losses in the coverage', async () => {
  expect(await textOf('/api/events?from=9007199254740993&to=9223372036854775807&coverage=full')).toContain(GAP);
});

const NOTHING = '{"count":0,"bytes":0,"last_end_ns":null,"last_end":null}';
const tx = () =>
  `{"transaction_id":"tx","trace_id":null,"first_timestamp_ns":9007199254740993,"first_timestamp":"${SMALL_TIME}",` +
  `"last_end_ns":9223372036854775807,"last_end":"${LARGE_TIME}",` +
  `"duration_ns":9214364837600034814,"written_back":${NOTHING},"event_count":2,"error_count":0,"slowest_event_id":"${ids[0]}",` +
  `"burst_count":2,"bursts_apart_ns":${LARGE - 2n * SMALL},` +
  `"services":["shop"],"nodes":["${NODE}"],"pinned":false}`;
const longestTransaction = () =>
  `{"transaction_id":"longest","trace_id":null,"first_timestamp_ns":0,"first_timestamp":"1970-01-01T00:00:00.000000000Z",` +
  `"last_end_ns":9223372036854775807,"last_end":"${LARGE_TIME}",` +
  `"duration_ns":9223372036854775807,"written_back":${NOTHING},"event_count":1,"error_count":0,"slowest_event_id":"${ids[2]}",` +
  `"burst_count":1,"bursts_apart_ns":0,` +
  `"services":["shop"],"nodes":["${NODE}"],"pinned":false}`;

test('transactions', async () => {
  const listed = async (query: string) => {
    const text = await textOf(`/api/transactions?${query}`);
    return text.slice('{"transactions":['.length, text.indexOf('],"next_cursor"'));
  };
  expect(await listed('')).toBe(`${tx()},${longestTransaction()}`);
  expect(await listed('sort=slowest')).toBe(`${longestTransaction()},${tx()}`);
  expect(await listed('from=9007199254740993&to=9007199254740994')).toBe(tx());
  expect(await listed('from=9007199254740994')).toBe('');
  expect(await listed('min_duration_ms=9223372036854.775807')).toBe(longestTransaction());
  const { json } = await served.get('/api/transactions?sort=slowest&limit=1');
  expect(await listed(`sort=slowest&limit=1&cursor=${json.next_cursor}`)).toBe(tx());
  expect(await textOf('/api/transactions/tx')).toContain(`${tx().slice(0, -1)},"coverage":{`);
  expect(await textOf('/api/transactions/longest')).toContain(`${longestTransaction().slice(0, -1)},"coverage":{`);
});

test('sums', async () => {
  const max = (text: string) => [...text.matchAll(/"max":(\d+)/g)].map(([, digits]) => digits);
  const text = await textOf('/api/stats?bucket=1ns&coverage=full');
  expect([...text.matchAll(/"bucket_start_ns":(\d+)/g)].map(([, digits]) => digits)).toEqual([
    ...['0', '9007199254740993', '9223372036854775807'],
  ]);
  expect(max(text)).toEqual(['9223372036854775807', '9007199254740993', '0', '9223372036854775807']);
  expect([...text.matchAll(/"bytes":(\d+)/g)].map(([, digits]) => digits)).toEqual([
    ...['9007199254740993', '9223372036854775807', '64', '9232379236109516864'],
  ]);
  expect(text).toContain(GAP);
  const one = await textOf('/api/stats?from=9007199254740993&to=9007199254740994');
  expect(one.slice(0, one.indexOf(',"coverage"'))).toBe(
    '{"stats":[{"bucket_start_ns":null,"bucket_start":null,"group":{},"count":1,"error_count":0,"bytes":9223372036854775807,"duration_ns":' +
      `{"sum":9007199254740993,"p50":9007199254740993,"p90":9007199254740993,"p99":9007199254740993,"max":9007199254740993}}],"total":` +
      '{"count":1,"error_count":0,"bytes":9223372036854775807,"duration_ns":' +
      '{"sum":9007199254740993,"p50":9007199254740993,"p90":9007199254740993,"p99":9007199254740993,"max":9007199254740993}}',
  );
});

test('pins', async () => {
  const pinned = await post('/api/transactions/tx/pin', '{"before_ms":0}');
  expect(pinned).toMatch(/^\{"transaction_id":"tx","from":9007199254740993,/);
  expect(await textOf('/api/pins')).toMatch(/^\{"pins":\[\{"transaction_id":"tx","from":9007199254740993,/);
  expect(await post('/api/transactions/tx/pin', '{"before_ms":0.000001}')).toContain('"from":9007199254740992,');
  expect((await served.get('/api/transactions/tx/pin', { method: 'DELETE' })).status).toBe(204);
});

test('replay', async () => {
  const hour = 3_600_000_000_000n;
  // With an hour of extra latency for each of two events, the session has the greatest length allowed.
  const span = 2n ** 53n - 1n - 2n * hour;
  const rows: Row[] = [
    { at: LARGE - span, duration: 1n, transaction: 'tx', result: LARGE },
    { at: LARGE, duration: 0n, transaction: 'tx', result: SMALL },
  ];
  const player = await serve(recorded(rows));
  const send = async (path: string, body: string) => {
    const headers = { 'content-type': 'application/json' };
    return (await player.get(path, { method: 'POST', headers, body })).text;
  };
  const settings = `"timeout_ns":9223372036854775807,"extra_latency_ns":${hour}`;
  const created = await send('/api/replay/sessions', `{"transaction_id":"tx",${settings}}`);
  expect(created).toContain('"timeout_ns":9223372036854775807,');
  expect(created).toContain(`"duration_ns":${span},"replay_duration_ns":${span + 2n * hour},`);
  const path = `/api/replay/sessions/${JSON.parse(created).session_id}`;
  for (const position of [1n, span + hour])
    expect(await send(`${path}/seek`, `{"position_ns":${position}}`)).toContain(`"position_ns":${position},`);
  // The event is moved by the extra latency of the event before it.
  expect(await send(`${path}/seek`, `{"timestamp_ns":${LARGE}}`)).toContain(`"position_ns":${span + hour},`);
  for (const at of [path, '/api/replay/sessions'])
    expect((await player.get(at)).text).toContain(`"position_ns":${span + hour},`);
  await send(`${path}/seek`, '{"event_index":0}');
  const stepped = await send(`${path}/step`, '{"count":2}');
  expect(stepped).toContain(`"timestamp_ns":${LARGE - span},`);
  expect(stepped).toContain('"result":9223372036854775807,');
  expect(stepped).toContain('"timestamp_ns":9223372036854775807,');
  expect(stepped).toContain('"result":9007199254740993,');
  expect(stepped).toContain(`"replay":{"index":1,"offset_ns":${span + hour},`);
  await player.close();
  // The limit is 104 days, because a double holds every nanosecond of a shorter session.
  expect(await post('/api/replay/sessions', '{"transaction_id":"tx"}')).toContain('104 days');
});

interface Schema {
  type?: string | string[];
  format?: string;
  $ref?: string;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  /** The schema of each value of a map. */
  additionalProperties?: Schema;
  [keyword: string]: unknown;
}

/** Every field of every schema in the document, at any depth. */
function* fieldsIn(part: unknown): Generator<[name: string, schema: Schema]> {
  if (typeof part !== 'object' || part === null) return;
  const { properties } = part as Schema;
  if (properties) yield* Object.entries(properties);
  for (const inner of Object.values(part)) yield* fieldsIn(inner);
}

test('the API document gives their type as int64', () => {
  const is64 = ({ type, format, anyOf = [], additionalProperties: values }: Schema): boolean =>
    (type === 'integer' && format === 'int64') ||
    anyOf.some(is64) ||
    (type === 'object' && values !== undefined && is64(values));
  const fields = [...fieldsIn(openApiDocument())];
  // Quantiles of a replay's lateness are approximate and may be doubles.
  const others = ['p50_ns', 'p99_ns'];
  const timed = fields.filter(
    ([name, { type }]) => name.endsWith('_ns') && type !== 'object' && !others.includes(name),
  );
  expect(timed.filter(([, schema]) => !is64(schema)).map(([name]) => name)).toEqual([]);
  const named = new Map(fields);
  for (const name of ['timestamp_ns', 'result', 'bytes_requested', 'sector', 'queue_ns', 'from', 'to', 'max'])
    expect([name, is64(named.get(name)!)]).toEqual([name, true]);
});
