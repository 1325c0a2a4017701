/**
 * Viewers on real sockets, whose events another thread writes, while many clients send commands and connections break:
 * every viewer gets the same frames, each once and in order, and no event of an old plan after the state that a command
 * led to.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Row, recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';
import { type Frame, framesOf } from './frames.ts';

const EVENTS = 4000;
const PERIOD_NS = 200_000n;
/**
 * A tenth of that while clients send commands: a viewer that a busy machine keeps from reading for seconds must not miss
 * frames that are no longer kept.
 */
const SLOWED = 0.1;
const CLIENTS = 50;
const COMMANDS_EACH = 6;

const rows: Row[] = Array.from({ length: EVENTS }, (_, i) => ({
  at: START + BigInt(i) * PERIOD_NS,
  duration: 1000n,
  transaction: 'tx-1',
}));

let served: Served;
beforeAll(async () => {
  served = await serve(recorded(rows));
});
afterAll(() => served.close());

async function newSession(settings: object = {}): Promise<string> {
  const body = JSON.stringify({ transaction_id: 'tx-1', ...settings });
  const { json } = await command('/api/replay/sessions', body);
  return `/api/replay/sessions/${json.session_id}`;
}

function command(path: string, body = '{}', method = 'POST') {
  return served.get(path, { method, headers: { 'content-type': 'application/json' }, body });
}

interface Viewer {
  frames: Frame[];
  ended: Promise<void>;
}

/** Reads a stream to its end, and connects again after the last frame that it got whenever `cutAfter` bytes came. */
function view(
  path: string,
  { cutAfter = Number.POSITIVE_INFINITY, pauseMs = 0 } = {},
): Viewer & { joined: Promise<void> } {
  const frames: Frame[] = [];
  const joined = Promise.withResolvers<void>();

  async function readOnce(): Promise<boolean> {
    const lastId = frames.findLast(({ id }) => id !== undefined)?.id;
    const socket = connect(served.port, '127.0.0.1');
    const resumes = lastId === undefined ? '' : `Last-Event-ID: ${lastId}\r\n`;
    socket.write(`GET ${path}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${resumes}\r\n`);
    const parts: string[] = [];
    let length = 0;
    socket.setEncoding('utf8');
    for await (const part of socket) {
      parts.push(part);
      length += part.length;
      if (part.includes('event: state')) joined.resolve();
      if (length > cutAfter) break;
      if (pauseMs > 0) await sleep(pauseMs);
    }
    socket.destroy();
    const body = bodyOf(parts.join(''));
    // Only whole frames count.
    frames.push(...framesOf(body.slice(0, body.lastIndexOf('\n\n') + 2)));
    return frames.at(-1)?.event === 'end';
  }

  const ended = (async () => {
    while (!(await readOnce()));
  })();
  return { frames, ended, joined: joined.promise };
}

/** The body of an answer in chunks, of which the last one may be cut. */
function bodyOf(answer: string): string {
  const start = answer.indexOf('\r\n\r\n') + 4;
  let body = '';
  for (let at = start; at < answer.length; ) {
    const headEnd = answer.indexOf('\r\n', at);
    const size = Number.parseInt(answer.slice(at, headEnd), 16);
    if (headEnd < 0 || size === 0) break;
    body += answer.slice(headEnd + 2, headEnd + 2 + size);
    at = headEnd + 2 + size + 2;
  }
  return body;
}

/** Returns what is wrong in what a viewer got. */
function faultsOf(frames: readonly Frame[]): string[] {
  const faults: string[] = [];
  let nextIndex: number | undefined;
  let lastId: number | undefined;
  for (const { event, id, data } of frames) {
    if (id !== undefined) {
      if (lastId !== undefined && Number(id) !== lastId + 1 && event !== 'state')
        faults.push(`${id} follows ${lastId}`);
      lastId = Number(id);
    }
    if (event === 'gap') faults.push(`a gap of ${data.missed}`);
    if (event === 'state') nextIndex = data.event_index;
    if (event !== 'event') continue;
    if (nextIndex !== undefined && data.replay.index !== nextIndex)
      faults.push(`event ${data.replay.index} where ${nextIndex} was expected`);
    if (data.replay.lateness_ns < 0) faults.push(`event ${data.replay.index} is early`);
    nextIndex = data.replay.index + 1;
  }
  return faults;
}

function sameFrames(a: readonly Frame[], b: readonly Frame[]): void {
  const texts = new Map(a.map(({ id, event, text }) => [id, `${event} ${text}`]));
  for (const { id, event, text } of b) {
    const other = texts.get(id);
    // The first state of each viewer is its own.
    if (other !== undefined && event === 'event') expect(`${event} ${text}`).toBe(other);
  }
}

test('a replay arrives whole at all viewers: quick ones, slow ones, and those whose connection breaks', async () => {
  const path = await newSession();
  const viewers = [
    view(path),
    view(path),
    view(path, { cutAfter: 60_000 }),
    view(path, { cutAfter: 7000 }),
    view(path, { pauseMs: 3 }),
  ];
  await Promise.all(viewers.map(({ joined }) => joined));
  await command(`${path}/play`);
  await Promise.all(viewers.map(({ ended }) => ended));
  for (const { frames } of viewers) {
    expect(faultsOf(frames)).toEqual([]);
    const events = frames.filter(({ event }) => event === 'event');
    expect(events.map(({ data }) => data.replay.index)).toEqual(Array.from({ length: EVENTS }, (_, i) => i));
    sameFrames(viewers[0]!.frames, frames);
  }
  await command(path, '', 'DELETE');
});

test('commands of 50 clients at once leave every viewer with the events of the current plan', async () => {
  const path = await newSession({ loop: true, speed_factor: SLOWED });
  const viewers = [view(path), view(path, { cutAfter: 100_000 }), view(path)];
  await Promise.all(viewers.map(({ joined }) => joined));
  await command(`${path}/play`);
  const statuses = new Set<number>();
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      for (let i = 0; i < COMMANDS_EACH; i++) {
        await sleep((client * 7 + i * 31) % 150);
        const kind = (client + i) % 6;
        const { status } =
          kind === 0
            ? await command(`${path}/pause`)
            : kind === 1
              ? await command(`${path}/seek`, JSON.stringify({ event_index: (client * 977 + i * 131) % EVENTS }))
              : kind === 2
                ? await command(path, JSON.stringify({ speed_factor: SLOWED * (0.5 + (client % 5) / 4) }), 'PATCH')
                : kind === 3
                  ? await command(path, JSON.stringify({ extra_latency_ns: (client % 3) * 1000 }), 'PATCH')
                  : await command(`${path}/play`);
        statuses.add(status);
      }
    }),
  );
  await command(`${path}/play`);
  await sleep(300);
  await command(`${path}/stop`);
  await Promise.all(viewers.map(({ ended }) => ended));
  // A session that has not begun cannot be paused.
  expect([...statuses].filter((status) => ![200, 409].includes(status))).toEqual([]);
  for (const { frames } of viewers) {
    expect(faultsOf(frames)).toEqual([]);
    sameFrames(viewers[0]!.frames, frames);
  }
  expect(viewers[0]!.frames.length).toBeGreaterThan(CLIENTS * COMMANDS_EACH);
  const { status, text } = await command(path, '', 'DELETE');
  expect([status, text]).toEqual([204, '']);
});

test('no event is played after the answer to a pause', async () => {
  const path = await newSession({ loop: true });
  const viewer = view(path);
  await viewer.joined;
  for (let i = 0; i < 40; i++) {
    await command(`${path}/play`);
    await sleep(i % 7);
    const { json } = await command(`${path}/pause`);
    await sleep(3);
    const after = (await served.get(path)).json;
    expect([after.event_index, after.position_ns]).toEqual([json.event_index, json.position_ns]);
  }
  await command(`${path}/stop`);
  await viewer.ended;
  expect(faultsOf(viewer.frames)).toEqual([]);
  await command(path, '', 'DELETE');
});
