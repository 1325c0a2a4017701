/**
 * Tests live streams that are never read and have nothing to send: a daemon that holds as many as it allows answers
 * others.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { STREAMS_MAX } from '../../../../daemon/http/access/stream_room.ts';
import { type Running, start } from '../../command_line.ts';
import { recorded, START } from '../../recorded.ts';

let daemon: Running;
let url: string;
beforeAll(async () => {
  const folder = recorded([{ at: START, transaction: 'tx' }]);
  daemon = start('daemon', '--data', folder, '--listen', '127.0.0.1:0', '--no-state');
  url = /http:\S+/.exec(await daemon.printed(/\n/))![0];
});
afterAll(async () => {
  daemon.child.kill('SIGKILL');
  await daemon.ended;
});

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** Reads no more than the status of the answer. */
async function view(path: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {});
  sockets.push(socket);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n`);
  const [head] = (await once(socket, 'data')) as [Buffer];
  socket.pause();
  return head.toString('latin1', 9, 12);
}

async function viewAll(paths: readonly string[]): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (let from = 0; from < paths.length; from += 64)
    for (const status of await Promise.all(paths.slice(from, from + 64).map(view)))
      counts.set(status, (counts.get(status) ?? 0) + 1);
  return counts;
}

async function answersInTime(): Promise<void> {
  for (const path of ['/api/nodes', '/api/events', '/api/replay/sessions', '/api/transactions', '/healthz'])
    expect([path, (await fetch(url + path, { signal: AbortSignal.timeout(5000) })).status]).toEqual([path, 200]);
}

/** Creates a session and returns the path of its stream. */
async function newSession(): Promise<string> {
  const created = await fetch(`${url}/api/replay/sessions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"transaction_id":"tx"}',
  });
  return `/api/replay/${created.headers.get('location')}/events`;
}

const times = (count: number, path: string) => Array<string>(count).fill(path);

test('1024 viewers of four paused sessions leave connections for others', async () => {
  const viewers: string[] = [];
  for (let i = 0; i < 4; i++) viewers.push(...times(256, await newSession()));
  const statuses = await viewAll(viewers);
  await answersInTime();
  expect([...statuses].sort()).toEqual([
    ['200', STREAMS_MAX],
    ['429', 1024 - STREAMS_MAX],
  ]);
}, 60_000);

test('viewers and tails share the limit, and one that leaves makes room', async () => {
  const paths = [...times(200, '/api/events'), ...times(256, await newSession()), ...times(56, await newSession())];
  expect([...(await viewAll(paths))]).toEqual([['200', STREAMS_MAX]]);
  const stream = { headers: { accept: 'text/event-stream' }, signal: AbortSignal.timeout(10_000) };
  const refused = await fetch(`${url}/api/events`, stream);
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([429, 'tail_limit']);
  sockets.shift()!.destroy();
  let status = 0;
  while (status !== 200) ({ status } = await fetch(`${url}/api/events`, stream));
}, 60_000);
