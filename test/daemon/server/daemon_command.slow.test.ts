/** Tests `kreplay daemon` as a process: how it starts, refuses to start, and ends. */
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { parseListen } from '../../../daemon/http/listen_address.ts';
import { kreplay, type Running, start } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, recorded, START } from '../recorded.ts';

const running: Running[] = [];
afterAll(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

interface Daemon extends Running {
  url: string;
  line: string;
  /** How long its start took, which says how busy the machine is. */
  startedMs: number;
}

async function daemon(...args: string[]): Promise<Daemon> {
  const begunMs = performance.now();
  // A busy machine may make any request a slow one.
  const one = start('daemon', '--log-slower-than', '1h', ...args);
  running.push(one);
  const line = await one.printed(/\n/);
  return { ...one, line, url: / at (\S+)\n/.exec(line)![1]!, startedMs: performance.now() - begunMs };
}

/** Asks it to end, and expects that it does so within a second, where its start took no longer than that. */
async function expectEndBy(signal: NodeJS.Signals, { child, ended, startedMs }: Daemon): Promise<void> {
  const asked = performance.now();
  child.kill(signal);
  const { code, stderr } = await ended;
  expect([code, stderr]).toEqual([0, '']);
  expect(performance.now() - asked).toBeLessThan(1000 + startedMs);
}

async function silentClientOf(url: string): Promise<void> {
  const silent = connect(Number(new URL(url).port), new URL(url).hostname.replace(/[[\]]/g, ''));
  await once(silent, 'connect');
  silent.on('error', () => {});
}

/** The stream of a new session of the transaction `tx`. */
async function streamOf(url: string): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  const body = '{"transaction_id":"tx"}';
  const created = await fetch(`${url}/api/replay/sessions`, { method: 'POST', headers, body });
  return fetch(`${url}/api/replay/${created.headers.get('location')}/events`);
}

test.each([
  ['[::1]:0', 'SIGINT'],
  ['localhost:0', 'SIGTERM'],
] as const)('the daemon serves %s, and %s ends it within a second, including its streams', async (listen, signal) => {
  const one = await daemon('--data', recorded([{ at: START, transaction: 'tx' }]), '--listen', listen);
  expect((await fetch(`${one.url}/healthz`)).status).toBe(200);
  const stream = await streamOf(one.url);
  await silentClientOf(one.url);
  await expectEndBy(signal, one);
  await stream.text().catch(() => {});
});

test('the daemon serves a Unix socket, and replaces a stale one', async () => {
  const path = join(newFolder(), 'socket');
  const folder = recorded([{ at: START }]);
  const first = await daemon('--data', folder, '--listen', `unix:${path}`);
  expect(first.url).toBe(`unix:${path}`);
  expect((await hosted('events', '--url', `unix:${path}`)).code).toBe(0);

  const second = await hosted('daemon', '--data', folder, '--no-state', '--listen', `unix:${path}`);
  expect([second.code, second.stderr]).toEqual([1, expect.stringMatching(/^kreplay: the socket is taken .*\n$/)]);

  first.child.kill('SIGKILL');
  await first.ended;
  expect(existsSync(path)).toBe(true);
  await daemon('--data', folder, '--listen', `unix:${path}`);
  expect((await hosted('events', '--url', `unix:${path}`)).code).toBe(0);
});

test('a file that is not a socket is not replaced', async () => {
  const path = join(newFolder(), 'precious');
  writeFileSync(path, 'data');
  const { code, stderr } = await hosted('daemon', '--listen', `unix:${path}`);
  expect([code, stderr.split('\n').length]).toEqual([1, 2]);
  expect(existsSync(path)).toBe(true);
});

test('a port in use is reported with a solution', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const { code, stdout, stderr } = await hosted('daemon', '--listen', `127.0.0.1:${port}`);
  other.close();
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(new RegExp(`^kreplay: port ${port} is taken .*--listen 127.0.0.1:${port + 1}\n$`));
});

test.each(['0.0.0.0:7467', '[::]:7467', '10.1.2.3:7467', 'example.org:7467'])(
  '%s is refused without tokens',
  async (listen) => {
    const { code, stdout, stderr } = await hosted('daemon', '--listen', listen);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^kreplay: refusing to listen on http:.*without tokens.*\n$/);
  },
);

test.each(['7467', '127.0.0.1', '127.0.0.1:65536', '127.0.0.1:x', '::1:7467', 'unix:', ''])(
  '--listen %j is a usage error',
  async (listen) => {
    expect(parseListen(listen)).toBeUndefined();
    expect((await hosted('daemon', '--listen', listen)).code).toBe(2);
  },
);

describe('answers in progress when the daemon ends', () => {
  const EVENTS = 100_003;
  let one: Daemon;
  beforeAll(async () => {
    const rows = Array.from({ length: EVENTS }, (_, i) => ({ at: START + BigInt(i), file: `/a/long/path/${i}` }));
    one = await daemon('--data', recorded(rows), '--listen', '127.0.0.1:0');
  });

  interface Begun {
    socket: Socket;
    failure(): NodeJS.ErrnoException | undefined;
  }

  /** An answer of which the client has read nothing yet. */
  async function begun(version: string): Promise<Begun> {
    const socket = connect(Number(new URL(one.url).port), '127.0.0.1');
    let failure: NodeJS.ErrnoException | undefined;
    socket.on('error', (error) => (failure = error));
    const request = 'Host: localhost\r\nAccept: application/x-ndjson\r\n\r\n';
    socket.write(`GET /api/events HTTP/${version}\r\n${request}`);
    await once(socket, 'readable');
    return { socket, failure: () => failure };
  }

  test('the daemon prints one line with its address and serves', async () => {
    expect(one.line).toMatch(/^kreplay daemon: serving \S+ at http:\/\/127\.0\.0\.1:\d+\n$/);
    const { code, stdout } = await kreplay('events', '--url', one.url, '--limit', '1');
    expect([code, stdout.split('\n').length - 1]).toEqual([0, 1]);
  });

  test('events in HTTP/1.0 and HTTP/1.1 are cut so that they cannot be mistaken for complete, and a tail is notified', async () => {
    const answers = [['ECONNRESET', await begun('1.0')] as const, [undefined, await begun('1.1')] as const];
    const tail = await fetch(`${one.url}/api/events`, { headers: { accept: 'text/event-stream' } });
    one.child.kill('SIGTERM');
    expect(await tail.text()).toMatch(
      /^retry: 2000\n\n(: hb\n\n)*event: end\nid: \S+\ndata: {"reason":"shutdown"}\n\n$/,
    );
    expect(await one.ended).toMatchObject({ code: 0, stderr: '' });
    for (const [code, { socket, failure }] of answers) {
      let text = '';
      socket.on('data', (chunk) => (text += chunk));
      await new Promise((resolve) => (socket.closed ? resolve(true) : socket.once('close', resolve)));
      expect(failure()?.code).toBe(code);
      expect(text).not.toContain('\r\n0\r\n');
    }
  });
});
