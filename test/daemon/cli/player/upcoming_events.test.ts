/** Tests reading of future events, from a fake daemon that answers under the test's control. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { createUpcomingEvents, type UpcomingEvents } from '../../../../daemon/cli/player/player.ts';
import type { ShownPlayer } from '../../../../daemon/cli/player/player_state.ts';
import { playedOf, playerBehind } from './fixture.ts';

const MS = 1_000_000;

interface Asked {
  url: string;
  res: ServerResponse;
}

const asked: Asked[] = [];
const server = createServer(({ url = '' }, res) => {
  asked.push({ url, res });
  server.emit('asked');
});
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => server.close());

let ending: AbortController;
beforeEach(() => {
  ending = new AbortController();
});
afterEach(() => ending.abort());

/** The next request that arrived. */
async function nextAsked(): Promise<Asked> {
  if (asked.length === 0) await once(server, 'asked');
  return asked.shift()!;
}

function toComeOf(player: ShownPlayer): UpcomingEvents {
  const { port } = server.address() as AddressInfo;
  const remote = { url: `http://127.0.0.1:${port}` };
  const onFailure = (error: unknown) => server.emit('error', error);
  return createUpcomingEvents(player, remote, { signal: ending.signal, onFailure });
}

/** Lines of a time line whose events are `apartNs` apart, from one index to another. */
function lines(apartNs: number, from: number, to: number): string {
  return Array.from({ length: to - from }, (_, at) => {
    const { replay, ...event } = playedOf(from + at);
    const place = { replay_offset_ns: replay.index * apartNs, replay_duration_ns: MS / 2, after_timeout: false };
    return `${stringify({ ...event, ...place })}\n`;
  }).join('');
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(setImmediate);
}

const starts = ({ state }: ShownPlayer) => state.ahead.map(({ startNs }) => startNs / MS);

test('events that are read again replace the old ones, a part at a time', async () => {
  const player = playerBehind([]);
  const toCome = toComeOf(player);
  toCome.read();
  const first = await nextAsked();
  expect(first.url).toBe('/api/replay/sessions/session-1/timeline');
  first.res.end(lines(MS, 0, 4));
  await until(() => player.state.ahead.length === 4);
  toCome.readAgain();
  const { res } = await nextAsked();
  expect(starts(player)).toEqual([0, 1, 2, 3]);
  res.write(lines(10 * MS, 0, 2));
  await until(() => player.state.ahead[1]?.startNs === 10 * MS);
  expect(starts(player)).toEqual([0, 10, 2, 3]);
  // An event that is played meanwhile keeps the start at which it was played.
  player.showEvent(playedOf(3, {}, { offset_ns: 30 * MS }), 0);
  expect(starts(player)).toEqual([0, 10, 2, 30]);
  res.end(lines(10 * MS, 2, 4));
  await until(() => starts(player).join() === '0,10,20,30');
});

test('a newer change ends an older read, and several concurrent ones are one', async () => {
  const player = playerBehind([]);
  const toCome = toComeOf(player);
  toCome.read();
  const older = await nextAsked();
  older.res.write(lines(MS, 0, 2));
  await until(() => player.state.ahead.length === 2);
  const closed = once(older.res, 'close');
  for (let change = 0; change < 3; change++) toCome.readAgain();
  await closed;
  const newer = await nextAsked();
  newer.res.end(lines(10 * MS, 0, 3));
  await until(() => player.state.ahead.length === 3);
  expect(starts(player)).toEqual([0, 10, 20]);
  expect(asked).toEqual([]);
});

test('a failed read shows its reason, and earlier events are kept', async () => {
  const player = playerBehind([]);
  const toCome = toComeOf(player);
  toCome.read();
  (await nextAsked()).res.end(lines(MS, 0, 2));
  await until(() => player.state.ahead.length === 2);
  toCome.readAgain();
  const problem = { code: 'too_busy', detail: 'many are waiting' };
  (await nextAsked()).res.writeHead(503, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
  await until(() => player.state.message !== '');
  expect(player.state.message).toBe('many are waiting (too_busy)');
  expect(starts(player)).toEqual([0, 1]);
});

test('after the player is left nothing more is requested', async () => {
  const player = playerBehind([]);
  const toCome = toComeOf(player);
  ending.abort();
  toCome.read();
  toCome.readAgain();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect([asked, player.state.message]).toEqual([[], '']);
});
