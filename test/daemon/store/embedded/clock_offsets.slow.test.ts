/**
 * Tests two nodes whose clocks differ by a known amount, so that an effect on one seems to precede its cause on the
 * other.
 */
import { join } from 'node:path';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { kreplay } from '../../command_line.ts';
import { newFolder, type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { type Answer, type Served, serve } from '../../served.ts';

const MS = 1_000_000n;
const SESSIONS = '/api/replay/sessions';
const TRANSACTION = 'order-1';

/** Lag of the clock of node-b behind that of node-a. */
const BEHIND_NS = 5n * MS;
/** node-b answers each write of node-a after 1 ms. */
const CAUSES = [0n, 10n * MS, 20n * MS].map((ns) => START + ns);
const rowAt = (at: bigint): Row => ({ at, duration: MS / 2n, transaction: TRANSACTION, tid: 7 });

/** Boot time: a minute before the first event. */
const BOOT = START - 60_000n * MS;

const step = (at: bigint, by: bigint) =>
  ({ bootNs: at - BOOT, offsetNs: BOOT + by, kind: 'step', suspendedNs: 0n }) as const;

let app: Served;
beforeAll(async () => {
  const cause = recordedOn('node-a', CAUSES.map(rowAt), (writer) => {
    writer.recordClock({ ...step(START - 100n * MS, 0n), kind: 'start' });
    // The first step precedes the transaction; the other two happen while it runs.
    writer.recordClock(step(START - 50n * MS, 7n * MS));
    writer.recordClock(step(START + 5n * MS, 5n * MS));
    writer.recordClock(step(START + 6n * MS, 8n * MS));
  });
  const effect = recordedOn(
    'node-b',
    CAUSES.map((at) => rowAt(at + MS - BEHIND_NS)),
  );
  app = await serve(openRecordingStore(undefined, [cause, effect].map(recordingPath)));
});
afterAll(() => app.close());

function post(path: string, body: object = {}): Promise<Answer> {
  const headers = { 'content-type': 'application/json' };
  return app.get(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

const OFFSETS = { clock_offsets_ns: { 'node-b': Number(BEHIND_NS) } };

async function create(more: object): Promise<Answer['json']> {
  const { status, json } = await post(SESSIONS, { transaction_id: TRANSACTION, ...more });
  expect(status).toBe(201);
  return json;
}

/** Node and replay offset of each event, from the session's timeline. */
async function timelineOf({ session_id }: { session_id: string }): Promise<[string, number][]> {
  const { json } = await app.get(`${SESSIONS}/${session_id}/timeline`);
  return json.events.map(({ node, replay_offset_ns }: Record<string, unknown>) => [
    node,
    Number(replay_offset_ns) / 1e6,
  ]);
}

test('with the recorded clocks, the effect precedes its cause', async () => {
  const session = await create({});
  expect((await timelineOf(session)).map(([node]) => node)).toEqual([
    'node-b',
    'node-a',
    'node-b',
    'node-a',
    'node-b',
    'node-a',
  ]);
  expect(session.duration_ns).toBe(Number(24n * MS + MS / 2n));
});

test('with a clock offset, the effect follows its cause, and its timestamp stays as recorded', async () => {
  const session = await create(OFFSETS);
  expect(await timelineOf(session)).toEqual([
    ['node-a', 0],
    ['node-b', 1],
    ['node-a', 10],
    ['node-b', 11],
    ['node-a', 20],
    ['node-b', 21],
  ]);
  expect(session).toMatchObject({
    duration_ns: Number(21n * MS + MS / 2n),
    replay_duration_ns: Number(21n * MS + MS / 2n),
  });
  const { text } = await app.get(`${SESSIONS}/${session.session_id}/timeline?event_index=1&limit=1`);
  expect(text).toContain(`"timestamp_ns":${START + MS - BEHIND_NS},`);
});

test('only the difference between the offsets matters', async () => {
  const offsets = { 'node-a': -Number(BEHIND_NS) + 3, 'node-b': 3 };
  const [one, other] = [await create(OFFSETS), await create({ clock_offsets_ns: offsets })];
  expect(await timelineOf(other)).toEqual(await timelineOf(one));
});

test('the session and a what-if list each clock: its offset, the source and how far it was set', async () => {
  const { clock } = await create(OFFSETS);
  expect(clock).toEqual([
    { node: 'node-a', offset_ns: 0, stepped_ns: Number(5n * MS), source: 'none', uncertainty_ns: null },
    { node: 'node-b', offset_ns: Number(BEHIND_NS), stepped_ns: 0, source: 'override', uncertainty_ns: null },
  ]);
  const told = (await post('/api/replay/whatif', { transaction_id: TRANSACTION, ...OFFSETS })).json;
  expect(told).toMatchObject({ clock, duration_ns: Number(21n * MS + MS / 2n) });
});

test('a timestamp is by the clock of the node that recorded it', async () => {
  const { session_id } = await create(OFFSETS);
  for (const [index, timestamp] of [
    [0, START],
    [1, START + MS - BEHIND_NS],
    [5, START + 21n * MS - BEHIND_NS],
  ] as const) {
    const path = `${SESSIONS}/${session_id}/seek`;
    const body = `{"timestamp_ns": ${timestamp}}`;
    const headers = { 'content-type': 'application/json' };
    const { json } = await app.get(path, { method: 'POST', headers, body });
    expect(json.event_index).toBe(index);
  }
});

test.each([
  ['a node without a recording', { 'node-c': 1 }, '/clock_offsets_ns/node-c', /node-a, node-b/],
  ['a name with a slash', { 'a/b': 1 }, '/clock_offsets_ns/a~1b', /node-a, node-b/],
  ['what no node has measured', 'measured', '/clock_offsets_ns', /measured offsets are of a fleet.*give a map/],
  ['another word', 'best', '/clock_offsets_ns', /an offset for each node, or "measured"/],
  ['a fraction', { 'node-a': 0.5 }, '/clock_offsets_ns/node-a', /must be an integer/],
  ['more than a session can play', { 'node-a': 9e15, 'node-b': -9e15 }, '/clock_offsets_ns', /104 days/],
])('%s is refused', async (_, offsets, pointer, message) => {
  const { status, json } = await post(SESSIONS, { transaction_id: TRANSACTION, clock_offsets_ns: offsets });
  expect([status, json.code]).toEqual([400, 'invalid_body']);
  expect(json.errors).toEqual([{ pointer, message: expect.stringMatching(message) }]);
});

test.each([{ transaction_id: TRANSACTION }, { where: {} }])('a what-if of %j needs a fleet to measure', async (of) => {
  const { status, json } = await post('/api/replay/whatif', { ...of, clock_offsets_ns: 'measured' });
  expect([status, json.code]).toEqual([400, 'invalid_body']);
  expect(json.errors).toEqual([{ pointer: '/clock_offsets_ns', message: expect.stringMatching(/give a map/) }]);
});

test('a node that began in 1970 is played, kept and shown with its offset', async () => {
  const OFF_NS = START - 3_600_000_000_001n;
  const paths = [
    recordedOn('node-a', CAUSES.map(rowAt)),
    recordedOn(
      'node-b',
      CAUSES.map((at) => rowAt(at + MS - OFF_NS)),
    ),
  ].map(recordingPath);
  const stateFile = join(newFolder(), 'sessions.sqlite');
  const options = { stateFile };
  const first = await serve(openRecordingStore(undefined, paths), options);
  const headers = { 'content-type': 'application/json' };
  const body = `{"transaction_id": "${TRANSACTION}", "clock_offsets_ns": {"node-b": ${OFF_NS}}}`;
  const created = await first.get(SESSIONS, { method: 'POST', headers, body });
  expect(created).toMatchObject({ status: 201, json: { duration_ns: Number(21n * MS + MS / 2n) } });
  expect(created.text).toContain(`"offset_ns":${OFF_NS},`);
  const refused = await first.get(SESSIONS, { method: 'POST', headers, body: `{"transaction_id": "${TRANSACTION}"}` });
  expect(refused.json).toMatchObject({ status: 400, detail: expect.stringContaining('give clock_offsets_ns') });
  const asked = ['--url', first.url, '--extra-latency', '2ms', '--clock-offset', `node-b=+${OFF_NS}ns`];
  expect(await kreplay('whatif', TRANSACTION, ...asked)).toMatchObject({ code: 0 });
  await first.close();

  const again = await serve(openRecordingStore(undefined, paths), options);
  const { session_id } = created.json;
  const { json } = await again.get(`${SESSIONS}/${session_id}/timeline`);
  expect(json.events.map(({ node }: { node: string }) => node).join()).toBe(
    'node-a,node-b,node-a,node-b,node-a,node-b',
  );
  expect((await again.get(`${SESSIONS}/${session_id}`)).text).toContain(`"offset_ns":${OFF_NS},`);
  await again.close();
});

describe('kreplay replay --clock-offset', () => {
  const replay = (...args: string[]) => kreplay('replay', TRANSACTION, '--url', app.url, '--output', 'ndjson', ...args);

  test('is given once for each node', async () => {
    const offsets = ['--clock-offset', 'node-b=+4.5ms', '--clock-offset', 'node-a=-500us'];
    const { code, stdout } = await replay(...offsets, '--speed', '1000');
    const nodes = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).node);
    expect([code, nodes]).toEqual([0, ['node-a', 'node-b', 'node-a', 'node-b', 'node-a', 'node-b']]);
  });

  test.each(['node-b', 'node-b=5', '=5ms', 'node-b=+-5ms'])('%s is a usage error', async (offset) => {
    const { code, stderr } = await replay('--clock-offset', offset);
    expect([code, stderr.includes('node=+1.5ms')]).toEqual([2, true]);
  });
});
