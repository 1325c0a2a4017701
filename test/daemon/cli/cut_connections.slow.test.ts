/**
 * Tests commands whose daemon goes away in the middle of its answer, and commands that are killed while they answer.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { kreplay, startWith } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, type Row, recorded, recordingPath, START } from '../recorded.ts';

const ENTRY = join(import.meta.dirname, '../../../kreplay.ts');

/** Answers every request with headers and the beginning of a body, then applies `cut` to the connection. */
async function cutting(cut: (socket: Socket) => void): Promise<{ url: string; close: () => void }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      const type = 'application/x-ndjson';
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":`);
      setTimeout(() => cut(socket), 50);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => void server.close() };
}

const COMMANDS = [
  'events',
  'tail',
  'transactions',
  'stats',
  'services',
  'pin order-1',
  'pin --list',
  'whatif order-1',
  'replay order-1',
];

describe.each([
  ['reset', hosted, (socket: Socket) => void socket.resetAndDestroy()],
  ['closed', kreplay, (socket: Socket) => void socket.destroy()],
])('an answer whose connection is %s', (_, run, cut) => {
  test.each(COMMANDS)('is reported as one line on stderr: %s', async (command) => {
    const daemon = await cutting(cut);
    const { code, stderr } = await run(...command.split(' '), '--url', daemon.url);
    daemon.close();
    expect(stderr).toMatch(/^kreplay: .*(broke off|closed the connection|cannot reach|cannot reach)/m);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(code).not.toBe(0);
  });
});

describe('reading a file', () => {
  let folder: string;
  beforeAll(() => {
    folder = recorded(Array.from({ length: 20_000 }, (_, n): Row => ({ at: START + BigInt(n), pid: n % 100 })));
  });

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s ends it with that signal and leaves no folder',
    async (signal) => {
      const TMPDIR = newFolder();
      const args = ['events', '--recording', recordingPath(folder), '--limit', '20000'];
      const child = spawn(process.execPath, [ENTRY, ...args], {
        env: { ...process.env, TMPDIR },
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      const ended = once(child, 'close');
      await once(child.stdout, 'readable');
      expect(readdirSync(TMPDIR)).toHaveLength(1);
      child.kill(signal);
      child.stdout.resume();
      expect((await ended)[1]).toBe(signal);
      expect(readdirSync(TMPDIR)).toEqual([]);
    },
  );

  test('a reader that stops early leaves no folder', () => {
    const TMPDIR = newFolder();
    const command = `'${process.execPath}' '${ENTRY}' events --limit 20000 --recording '${recordingPath(folder)}' | head -n 1`;
    const text = execFileSync('sh', ['-c', command], { env: { ...process.env, TMPDIR }, encoding: 'utf8' });
    expect(text).toMatch(/"event_id"/);
    expect(readdirSync(TMPDIR)).toEqual([]);
  });

  test('a temporary folder with a path longer than a socket allows is no problem', async () => {
    const TMPDIR = join(newFolder(), 'x'.repeat(120));
    mkdirSync(TMPDIR);
    const { ended } = startWith({ TMPDIR }, 'events', '--recording', recordingPath(folder), '--limit', '2');
    const { code, stdout } = await ended;
    expect([code, stdout.split('\n').length]).toEqual([0, 3]);
    expect(readdirSync(TMPDIR)).toEqual([]);
  });
});

test('if the state thread dies, its process goes on, and requests to keep state are refused with the reason', async () => {
  const module = join(import.meta.dirname, '../../../daemon/replay/persistence/state_thread.ts');
  const script = `
    import { openState } from ${JSON.stringify(module)};
    const { promise: worker, resolve } = Promise.withResolvers();
    process.once('worker', resolve);
    const state = await openState(${JSON.stringify(join(newFolder(), 'sessions.sqlite'))});
    // The thread cannot read this, and ends by what it throws.
    (await worker).postMessage(null);
    const nothing = { sessions: [], places: [], removed: [] };
    for (let i = 0; i < 2; i++) await state.write(nothing).catch((error) => console.log('refused:', error.message));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await state.close();
    console.log('goes on');`;
  const file = join(newFolder(), 'script.mjs');
  writeFileSync(file, script);
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (more) => {
      text += more;
    });
  const [code] = await once(child, 'close');
  expect([code, text]).toEqual([0, expect.stringMatching(/^refused: .*\nrefused: .*\ngoes on\n$/)]);
});
