/**
 * Tests that sessions survive the end of a daemon process: killed at random moments in use, next to another daemon, and
 * on a full disk.
 */
import { once } from 'node:events';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseJson } from '../../../../daemon/base/exact_json.ts';
import { times } from '../../../repeats.ts';
import { type Running, start } from '../../command_line.ts';
import { newSmallDisk } from '../../export/small_disk.ts';
import { hosted } from '../../hosted.ts';
import { samplesOf, valuesOf } from '../../metrics/scraped.ts';
import { newFolder, type Row, recorded, START } from '../../recorded.ts';
import { served } from '../../served.ts';
import { framesOf } from '../frames.ts';

const KILLS = times(3);
const COUNT = 20_000;
const PLAYING_MS = 700;

const rows = (count: number): Row[] =>
  Array.from({ length: count }, (_, n) => ({ at: START + BigInt(n) * 1_000_000n, transaction: 'tx', tid: n % 3 }));

/** The folder of the series of `COUNT` events, for tests that leave nothing in it. */
let long: string;
beforeAll(() => {
  long = recorded(rows(COUNT));
});

/** Where a daemon keeps its sessions for one test. */
const ownState = () => ['--state', join(newFolder(), 'sessions.sqlite')];

const running = new Set<Running>();
afterEach(async () => {
  for (const one of running) await kill(one);
});

async function kill(one: Running): Promise<void> {
  running.delete(one);
  one.child.kill('SIGKILL');
  await one.ended;
}

async function daemon(...args: string[]): Promise<{ url: string; one: Running }> {
  const one = start('daemon', '--listen', '127.0.0.1:0', ...args);
  running.add(one);
  return { one, url: / at (\S+)\n/.exec(await one.printed(/\n/))![1]! };
}

interface View {
  session_id: string;
  state: string;
  event_index: number;
  [field: string]: unknown;
}

async function ask(url: string, path: string, method = 'GET', body?: object) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}${path}`, { method, ...(body && { body: JSON.stringify(body), headers }) });
  const text = await response.text();
  return { status: response.status, json: text === '' ? undefined : (parseJson(text) as Record<string, unknown>) };
}

const SESSIONS = '/api/replay/sessions';

/** State of a session as its client knows it. */
interface Known {
  /** The session as the daemon last acknowledged it. */
  view: View;
  /** A command that got no answer: it may have taken effect. */
  asked: string | undefined;
  /** Everything received from its event stream since this daemon started. */
  streamed: string;
  lastId: string | undefined;
}

const random = (below: number) => Math.floor(Math.random() * below);

function randomCommand(): [name: string, method: string, body: object] {
  const kinds: [string, string, object][] = [
    ['/play', 'POST', {}],
    ['/play', 'POST', {}],
    ['/pause', 'POST', {}],
    ['/seek', 'POST', { event_index: random(COUNT) }],
    ['/step', 'POST', { count: random(2) === 0 ? 1 + random(50) : -1 - random(50) }],
    ['', 'PATCH', { speed_factor: 1 + random(8), extra_latency_ns: random(5) * 1000 }],
  ];
  if (random(8) === 0) kinds.push(['/stop', 'POST', {}], ['', 'DELETE', {}]);
  return kinds[random(kinds.length)]!;
}

/** Sends random commands to a session until the daemon is gone. */
async function use(url: string, known: Map<string, Known>, session: Known): Promise<void> {
  const { session_id: id } = session.view;
  for (;;) {
    const [name, method, body] = randomCommand();
    session.asked = `${method} ${name}`;
    const answer = await ask(url, `${SESSIONS}/${id}${name}`, method, method === 'DELETE' ? undefined : body);
    session.asked = undefined;
    if (answer.status === 204) {
      known.delete(id);
      return;
    }
    if (answer.status !== 200) expect(answer).toMatchObject({ status: 409, json: { code: 'invalid_transition' } });
    else session.view = (name === '/step' ? answer.json!.session : answer.json) as View;
  }
}

/** Follows the session's event stream and sends it commands meanwhile. */
async function follow(url: string, known: Map<string, Known>, session: Known): Promise<void> {
  const headers = session.lastId === undefined ? {} : { 'last-event-id': session.lastId };
  session.streamed = '';
  const response = await fetch(`${url}${SESSIONS}/${session.view.session_id}/events`, { headers });
  expect(response.status).toBe(200);
  const used = use(url, known, session).catch(whenGone);
  try {
    for await (const text of response.body!.pipeThrough(new TextDecoderStream())) session.streamed += text;
  } finally {
    await used;
  }
}

/**
 * Expects the restored session to equal the acknowledged one; an unanswered command may or may not have taken effect.
 */
function expectKept(found: View | undefined, { view, asked, streamed }: Known): void {
  const frames = framesOf(streamed);
  const last = frames.findLast(({ event }) => event === 'event')?.data.replay.index ?? -1;
  if (asked !== undefined) {
    if (!asked.startsWith('DELETE')) expect(found).toBeDefined();
    return;
  }
  const { state, event_index, position_ns, updated_at } = found!;
  const settings = ['transaction_id', 'speed_factor', 'extra_latency_ns', 'max_gap_ns', 'event_count', 'created_at'];
  for (const name of settings) expect([name, found![name]]).toEqual([name, view[name]]);
  if (view.state === 'playing') {
    expect(['paused', 'finished']).toContain(state);
    expect(event_index).toBeGreaterThanOrEqual(view.event_index);
    expect(event_index).toBeLessThanOrEqual(Math.max(last + 1, view.event_index));
  } else expect(view).toMatchObject({ state, event_index, position_ns, updated_at });
}

test(`killed ${KILLS} times: acknowledged sessions are kept, and playing ones are paused at their position`, async () => {
  const state = ownState();
  const known = new Map<string, Known>();
  let creationsUnanswered = 0;
  for (let kills = 0; kills <= KILLS; kills++) {
    const { one, url } = await daemon('--data', long, ...state);
    const { sessions } = (await ask(url, SESSIONS)).json as unknown as { sessions: View[] };
    const found = new Map(sessions.map((view) => [view.session_id, view]));
    for (const [id, session] of known) expectKept(found.get(id), session);
    const unknown = sessions.filter(({ session_id }) => !known.has(session_id));
    expect(unknown.length).toBeLessThanOrEqual(creationsUnanswered);
    for (const { session_id } of unknown) await ask(url, `${SESSIONS}/${session_id}`, 'DELETE');
    creationsUnanswered = 0;
    for (const [id, session] of known) {
      session.lastId = framesOf(session.streamed).findLast((frame) => frame.id !== undefined)?.id;
      const view = found.get(id);
      if (view) Object.assign(session, { view, asked: undefined });
      else known.delete(id);
    }

    const using = [...known.values()].map((session) => follow(url, known, session).catch(whenGone));
    const creating = async () => {
      for (let count = known.size; count < 6; count++) {
        creationsUnanswered++;
        const answer = await ask(url, SESSIONS, 'POST', { transaction_id: 'tx', max_gap_ns: 500_000 });
        creationsUnanswered--;
        const view = answer.json as View;
        const session: Known = { view, asked: undefined, streamed: '', lastId: undefined };
        known.set(view.session_id, session);
        using.push(follow(url, known, session).catch(whenGone));
      }
    };
    const created = creating().catch(whenGone);
    await sleep(random(PLAYING_MS));
    await kill(one);
    await created;
    await Promise.all(using);
  }
}, 240_000);

/** Rethrows errors other than a lost connection (fetch throws TypeError): they fail the test. */
function whenGone(error: unknown): void {
  if ((error as Error).name !== 'TypeError') throw error;
}

/**
 * An address at which a client waits for a daemon that begins, however long that takes: a replay gives up after some
 * attempts.
 */
async function waitingRoom(urlOf: () => Promise<string>): Promise<{ url: string; close(): void }> {
  const server = createServer(async (near) => {
    near.on('error', () => {});
    const { hostname, port } = new URL(await urlOf());
    const far = connect(Number(port), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => {}).on('close', () => to.destroy());
      from.pipe(to);
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void server.close(),
  };
}

describe('after a restart', () => {
  let folder: string;
  let first: { url: string; one: Running };
  let second: { url: string; one: Running };
  let replay: Running;
  let room: Awaited<ReturnType<typeof waitingRoom>>;
  let id: string;
  beforeAll(async () => {
    folder = recorded([...rows(3000), ...rows(10).map((row) => ({ ...row, transaction: 'short' }))]);
    first = await daemon('--data', folder);
    const made = await ask(first.url, SESSIONS, 'POST', { transaction_id: 'short' });
    ({ session_id: id } = made.json as unknown as View);
    await ask(first.url, `${SESSIONS}/${id}/step`, 'POST', { count: 4 });
    let current = Promise.resolve(first);
    room = await waitingRoom(async () => (await current).url);
    replay = start('replay', 'tx', '--url', room.url, '--output', 'ndjson');
    // The pattern begins at the start: any other beginning would be tried for each byte.
    await replay.printed(/^(.*\n){200}/);
    current = kill(first.one).then(() => daemon('--data', folder));
    await replay.logged(/trying again/);
    second = await current;
    // They are for all tests of these.
    running.delete(second.one);
  });
  afterAll(async () => {
    replay.child.kill('SIGKILL');
    room.close();
    await kill(second.one);
  });

  test('a stream that is resumed continues, and states that events may be missing', async () => {
    const stream = await fetch(`${second.url}${SESSIONS}/${id}/events`, { headers: { 'last-event-id': '2' } });
    await ask(second.url, `${SESSIONS}/${id}/play`, 'POST', {});
    const frames = framesOf(await stream.text());
    expect(frames.slice(0, 2)).toMatchObject([
      { event: 'gap', data: { missed: null } },
      { event: 'state', data: { event_index: 4, state: 'paused' } },
    ]);
    const indexes = frames.flatMap(({ event, data }) => (event === 'event' ? [data.replay.index] : []));
    expect(indexes).toEqual([4, 5, 6, 7, 8, 9]);
    expect(frames.at(-1)!.event).toBe('end');
  });

  test('a replay into a pipeline continues by itself', async () => {
    const { code, stdout, stderr } = await replay.ended;
    const indexes = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).replay.index as number);
    expect([code, stderr]).toEqual([0, expect.stringContaining('the daemon was started again')]);
    expect(indexes).toHaveLength(3000);
    expect(indexes.every((index, at) => index === at)).toBe(true);
  });
});

describe('a daemon with limits', () => {
  let folder: string;
  let url: string;
  let one: Running;
  beforeAll(async () => {
    folder = recorded(rows(1));
    ({ one, url } = await daemon('--data', folder, '--sessions-max', '1', '--session-idle', '1s'));
    // All tests of this block use the daemon.
    running.delete(one);
  });
  afterAll(() => kill(one));

  test('a second daemon on the folder is refused with a solution', async () => {
    const { code, stderr } = await hosted('daemon', '--data', folder, '--listen', '127.0.0.1:0');
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^kreplay: another daemon keeps its sessions in .*\n$/)]);
    await daemon('--data', folder, ...ownState());
    const other = await daemon('--data', folder, '--no-state');
    expect(await other.one.logged(/\n/)).toContain('replay sessions end with the daemon');
    expect(statSync(join(folder, 'sessions.sqlite')).mode & 0o777).toBe(0o600);
  });

  test('limits are options', async () => {
    const create = () => ask(url, SESSIONS, 'POST', { transaction_id: 'tx' });
    const first = await create();
    const path = `${SESSIONS}/${first.json!.session_id}`;
    // A session that is watched is in use, however long this takes.
    const leaving = new AbortController();
    await fetch(`${url}${path}/events`, { signal: leaving.signal });
    expect(await create()).toMatchObject({ status: 429, json: { code: 'session_limit' } });
    leaving.abort();
    // Requesting the list does not count as use of a session.
    while (((await ask(url, SESSIONS)).json as { sessions: unknown[] }).sessions.length > 0) await sleep(100);
    expect((await ask(url, path)).status).toBe(404);
    expect((await create()).status).toBe(201);
  });
});

test('a damaged file is not overwritten with a new one', async () => {
  const folder = recorded(rows(1));
  const path = join(folder, 'sessions.sqlite');
  writeFileSync(path, 'x'.repeat(5000));
  const { code, stderr } = await hosted('daemon', '--data', folder, '--listen', '127.0.0.1:0');
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^kreplay: .*--state.*\n$/)]);
  expect(readFileSync(path, 'utf8')).toBe('x'.repeat(5000));
});

const asRoot = process.getuid?.() === 0 ? test : test.skip;

asRoot(
  'on a full disk sessions continue, clients are notified, and sessions are kept once there is space',
  async () => {
    const disk = newSmallDisk(300);
    const { one, url } = await daemon('--data', long, '--state', join(disk, 'state'));
    const { session_id: id } = (await ask(url, SESSIONS, 'POST', { transaction_id: 'tx' })).json as unknown as View;
    expect(() => writeFileSync(join(disk, 'filling'), Buffer.alloc(1 << 20))).toThrow('ENOSPC');
    const keeping = async () => ((await ask(url, '/readyz')).json as { sessions: object }).sessions;
    const metric = async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return valuesOf(samplesOf(text), 'kreplay_replay_sessions_kept');
    };
    // The log has some room of its own, so writes fail only after a while.
    for (let count = 0; (await metric())[0] === 1 && count < 1000; count++)
      expect((await ask(url, `${SESSIONS}/${id}/seek`, 'POST', { event_index: count })).status).toBe(200);
    expect(await ask(url, `${SESSIONS}/${id}/play`, 'POST', {})).toMatchObject({
      status: 200,
      json: { state: 'playing' },
    });
    expect(await keeping()).toEqual({ kept: true, failure: expect.stringContaining('full') });
    expect(await one.logged(/cannot be kept/)).toContain('full');

    rmSync(join(disk, 'filling'));
    const paused = await ask(url, `${SESSIONS}/${id}/pause`, 'POST', {});
    expect([await keeping(), await metric()]).toEqual([{ kept: true, failure: null }, [1]]);
    expect(await one.logged(/are kept again/)).toContain('kept again');
    await kill(one);
    const again = await daemon('--data', long, '--state', join(disk, 'state'));
    expect((await ask(again.url, `${SESSIONS}/${id}`)).json).toMatchObject({
      state: 'paused',
      event_index: paused.json!.event_index,
    });
  },
);

test('a session outlives the connections that created, moved and watched it', async () => {
  const one = await served(long);
  const list = async () => (await one.get(SESSIONS)).json.sessions as View[];
  // The client disconnects before it gets the answer.
  const body = '{"transaction_id":"tx"}';
  const head = ['POST /api/replay/sessions HTTP/1.1', 'Host: localhost', 'Content-Type: application/json'];
  const asking = connect(one.port, '127.0.0.1');
  asking.end([...head, `Content-Length: ${body.length}`, '', body].join('\r\n'), () => asking.destroy());
  while ((await list()).length === 0);
  const { session_id: id } = (await list())[0]!;

  const made = await one.open(`${SESSIONS}/${id}/play`, { method: 'POST' });
  made.destroy();
  const viewers = [await one.open(`${SESSIONS}/${id}/events`), await one.open(`${SESSIONS}/${id}/events`)];
  for (const viewer of viewers) viewer.destroy();
  const at = async () => (await list())[0]!;
  const { event_index: before } = await at();
  let now = await at();
  while (now.event_index === before) now = await at();
  expect(now).toMatchObject({ session_id: id, state: 'playing' });
});
