/** Tests `kreplay daemon` as a process: how it starts, refuses to start, and ends. */
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { parseListen } from '../../../daemon/http/listen_address.ts';
import { kreplay, type Running, start } from '../command_line.ts';
import { newFolder, recorded, START } from '../recorded.ts';

const running: Running[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

async function daemon(...args: string[]): Promise<Running & { url: string; line: string }> {
  const one = start('daemon', ...args);
  running.push(one);
  const line = await one.printed(/\n/);
  return { ...one, line, url: / at (\S+)\n/.exec(line)![1]! };
}

test('the daemon prints one line with its address and serves', async () => {
  const folder = recorded([{ at: START }]);
  const { line, url } = await daemon('--data', folder, '--listen', '127.0.0.1:0');
  expect(line).toMatch(/^kreplay daemon: serving \S+ at http:\/\/127\.0\.0\.1:\d+\n$/);
  const { code, stdout } = await kreplay('events', '--url', url);
  expect([code, stdout.split('\n').length - 1]).toEqual([0, 1]);
});

test.each(['[::1]:0', 'localhost:0'])('the daemon serves %s', async (listen) => {
  const { url } = await daemon('--data', newFolder(), '--listen', listen);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

test('the daemon serves a Unix socket, and replaces a stale one', async () => {
  const path = join(newFolder(), 'socket');
  const folder = recorded([{ at: START }]);
  const first = await daemon('--data', folder, '--listen', `unix:${path}`);
  expect(first.url).toBe(`unix:${path}`);
  expect((await kreplay('events', '--url', `unix:${path}`)).code).toBe(0);

  const second = await kreplay('daemon', '--data', folder, '--no-state', '--listen', `unix:${path}`);
  expect([second.code, second.stderr]).toEqual([1, expect.stringMatching(/^kreplay: the socket is taken .*\n$/)]);

  first.child.kill('SIGKILL');
  await first.ended;
  expect(existsSync(path)).toBe(true);
  await daemon('--data', folder, '--listen', `unix:${path}`);
  expect((await kreplay('events', '--url', `unix:${path}`)).code).toBe(0);
});

test('a file that is not a socket is not replaced', async () => {
  const path = join(newFolder(), 'precious');
  writeFileSync(path, 'data');
  const { code, stderr } = await kreplay('daemon', '--listen', `unix:${path}`);
  expect([code, stderr.split('\n').length]).toEqual([1, 2]);
  expect(existsSync(path)).toBe(true);
});

test('a port in use is reported with a solution', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const { code, stdout, stderr } = await kreplay('daemon', '--listen', `127.0.0.1:${port}`);
  other.close();
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(new RegExp(`^kreplay: port ${port} is taken .*--listen 127.0.0.1:${port + 1}\n$`));
});

test.each(['0.0.0.0:7467', '[::]:7467', '10.1.2.3:7467', 'example.org:7467'])(
  '%s is refused without tokens',
  async (listen) => {
    const { code, stdout, stderr } = await kreplay('daemon', '--listen', listen);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^kreplay: refusing to listen on http:.*without tokens.*\n$/);
  },
);

test.each(['7467', '127.0.0.1', '127.0.0.1:65536', '127.0.0.1:x', '::1:7467', 'unix:', ''])(
  '--listen %j is a usage error',
  async (listen) => {
    expect(parseListen(listen)).toBeUndefined();
    expect((await kreplay('daemon', '--listen', listen)).code).toBe(2);
  },
);

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends the daemon within a second, including its streams',
  async (signal) => {
    const folder = recorded([{ at: START, transaction: 'tx' }]);
    const { child, ended, url } = await daemon('--data', folder, '--listen', '127.0.0.1:0');
    const headers = { 'content-type': 'application/json' };
    const created = await fetch(`${url}/api/replay/sessions`, {
      method: 'POST',
      headers,
      body: '{"transaction_id":"tx"}',
    });
    const stream = await fetch(`${url}${created.headers.get('location')}/events`);
    const silent = connect(Number(new URL(url).port), '127.0.0.1');
    await once(silent, 'connect');
    silent.on('error', () => {});

    const asked = performance.now();
    child.kill(signal);
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([0, '']);
    expect(performance.now() - asked).toBeLessThan(1000);
    await stream.text().catch(() => {});
  },
);

describe('answers in progress when the daemon ends', () => {
  const EVENTS = 100_003;
  const REQUEST = 'Host: localhost\r\nAccept: application/x-ndjson\r\n\r\n';
  let folder: string;
  beforeAll(() => {
    folder = recorded(Array.from({ length: EVENTS }, (_, i) => ({ at: START + BigInt(i), file: `/a/long/path/${i}` })));
  });

  test.each([
    ['1.0', 'ECONNRESET'],
    ['1.1', undefined],
  ])('events in HTTP/%s are cut so that they cannot be mistaken for complete', async (version, code) => {
    const { child, ended, url } = await daemon('--data', folder, '--listen', '127.0.0.1:0');
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    let failure: NodeJS.ErrnoException | undefined;
    socket.on('error', (error) => (failure = error));
    socket.write(`GET /api/events HTTP/${version}\r\n${REQUEST}`);
    await once(socket, 'readable');
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
    let text = '';
    socket.on('data', (chunk) => (text += chunk));
    await new Promise((resolve) => (socket.closed ? resolve(true) : socket.once('close', resolve)));
    expect(failure?.code).toBe(code);
    expect(text).not.toContain('\r\n0\r\n');
  });

  test('a tail is notified', async () => {
    const { child, ended, url } = await daemon('--data', folder, '--listen', '127.0.0.1:0');
    const res = await fetch(`${url}/api/events`, { headers: { accept: 'text/event-stream' } });
    child.kill('SIGTERM');
    expect(await res.text()).toMatch(
      /^retry: 2000\n\n(: hb\n\n)*event: end\nid: \S+\ndata: {"reason":"shutdown"}\n\n$/,
    );
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
  });
});

test('requests are logged by route as JSON', async () => {
  const folder = recorded([{ at: START }]);
  const { url, child, ended } = await daemon('--data', folder, '--listen', '127.0.0.1:0', '--log-level', 'debug');
  await (await fetch(`${url}/api/events/secret-id?`)).text();
  child.kill('SIGTERM');
  const { stderr } = await ended;
  const line = stderr.split('\n').find((text) => text.includes('/api/events'))!;
  expect(JSON.parse(line)).toMatchObject({ method: 'GET', route: '/api/events/:event_id', status: 404 });
  expect(stderr).not.toContain('secret-id');
});
