/** Tests `kreplay replay` as a process, against a daemon on a real socket. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { hosted } from '../hosted.ts';
import { type Row, recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

const KREPLAY = fileURLToPath(new URL('../../../kreplay.ts', import.meta.url));
const MS = 1_000_000n;

const ROWS: Row[] = Array.from({ length: 23 }, (_, n) => ({
  at: START + BigInt(n) * MS + 1n,
  duration: 40_000n,
  transaction: 'tx-1',
  file: '/data/orders.db',
}));

let served: Served;
beforeAll(async () => {
  served = await serve(
    recorded([...ROWS, { at: START, transaction: 'slow' }, { at: START + 3_600_000n * MS, transaction: 'slow' }]),
  );
});
afterAll(() => served.close());

function start(...args: string[]) {
  const child = spawn(process.execPath, [KREPLAY, 'replay', '--url', served.url, ...args]);
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  const done = once(child, 'close').then(([code]) => ({ code, stdout, stderr }));
  return { child, done };
}

const replay = (...args: string[]) => hosted('replay', '--url', served.url, ...args);

async function sessionCount(): Promise<number> {
  return (await served.get('/api/replay/sessions')).json.sessions.length;
}

test('prints every event when it plays with its outcome, and leaves no session', async () => {
  const { code, stdout, stderr } = await start('tx-1', '--output', 'text', '--timeout', '10ms').done;
  const lines = stdout.trimEnd().split('\n');
  expect(lines[0]).toMatch(/OFFSET +DURATION +TYPE +WHAT +BYTES +LATENESS/);
  expect(lines).toHaveLength(24);
  expect(lines[23]).toMatch(/\+22\.000ms +40\.000us +sys_write +write \/data\/orders\.db +64 +\S+ +after timeout$/);
  expect(stderr).toMatch(
    /^finished after 23 of 23 events; recorded 22\.040ms, replayed 22\.040ms at speed 1; lateness p50 /,
  );
  expect(stderr).toMatch(/times out after 10\.000ms, in event \S+-000000000000000a\n$/);
  expect(code).toBe(0);
  expect(await sessionCount()).toBe(0);
});

test('a pipeline receives NDJSON with exact digits, including the extra latency', async () => {
  const { code, stdout, stderr } = await start('tx-1', '--speed', '5', '--extra-latency', '2ms').done;
  const lines = stdout.trimEnd().split('\n');
  expect(lines).toHaveLength(23);
  expect(lines[7]).toContain(`"timestamp_ns":${ROWS[7]!.at},`);
  expect(JSON.parse(lines[7]!).replay).toMatchObject({ index: 7, offset_ns: 21_000_000, duration_ns: 2_040_000 });
  expect(stderr).toContain('replayed 68.040ms at speed 5');
  expect(code).toBe(0);
});

test('an unknown transaction is reported in one clear line', async () => {
  const { code, stdout, stderr } = await replay('nope');
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toBe('kreplay: no events of transaction nope are recorded (transaction_not_found)\n');
});

test.each([[['tx-1', '--speed', '0']], [['tx-1', '--extra-latency', '2']], [['tx-1', '--extra-latency', '61m']], [[]]])(
  '%p is a usage error',
  async (args) => {
    const { code, stdout } = await replay(...args);
    expect([code, stdout]).toEqual([2, '']);
  },
);

test('an interrupt stops and deletes the session', async () => {
  const { child, done } = start('slow');
  await once(child.stdout, 'data');
  expect(await sessionCount()).toBe(1);
  child.kill('SIGINT');
  const { code, stderr } = await done;
  expect(code).toBe(1);
  expect(stderr).toContain('stopped after 1 of 2 events');
  expect(await sessionCount()).toBe(0);
});

test('the end of the daemon is reported, and ends the command', async () => {
  const other = await serve(recorded(ROWS.map((row, n) => ({ ...row, at: START + BigInt(n) * 60_000n * MS }))));
  const child = spawn(process.execPath, [KREPLAY, 'replay', 'tx-1', '--url', other.url]);
  const done = once(child, 'close');
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  await once(child.stdout, 'data');
  await other.close();
  expect((await done)[0]).toBe(4);
  expect(stderr).toContain('kreplay: warning: the daemon has ended; trying again');
});

test.each<[string, string[], number, number, string]>([
  ['an index', ['--until-event', '7'], 8, 0, 'event 7: --until-event'],
  ['an id', ['--until-event', 'ID_OF_7'], 8, 0, 'event 7: --until-event'],
  ['a condition', ['--break', 'replay.offset_ms>=5 && duration_ms<1'], 6, 3, 'event 5: replay.offset_ms'],
  ['the last event', ['--until-event', '22'], 23, 0, 'event 22: --until-event'],
  ['a condition that nothing matches', ['--break', 'error=EIO'], 23, 0, 'finished after 23'],
])('stops immediately after %s, at any speed', async (_, args, count, exitCode, told) => {
  const { events } = (await served.get('/api/events?transaction_id=tx-1')).json;
  const given = args.map((arg) => arg.replace('ID_OF_7', events[7].event_id));
  const { code, stdout, stderr } = await replay('tx-1', '--speed', '1000', ...given);
  const indexes = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).replay.index);
  expect(indexes).toEqual(Array.from({ length: count }, (_, index) => index));
  expect(stderr).toContain(told);
  expect(stderr).toContain(` after ${count} of 23 events`);
  expect(code).toBe(exitCode);
  expect(await sessionCount()).toBe(0);
});

test.each<[string[], number, RegExp]>([
  [['--until-event', '23'], 1, /the transaction has 23 events, 0 to 22/],
  [['--until-event', '00000000000000ff-0000000000000001'], 1, /no event of this transaction/],
  [['--until-event', 'last'], 2, /must be an event id, or an index from 0/],
  [['--break', 'duraton_ms>50'], 2, /no field duraton_ms; there are .*duration_ms/],
  [['--output', 'player'], 1, /the player needs a terminal/],
])('kreplay replay %p prints the reason, and leaves no session', async (args, exitCode, told) => {
  const { code, stdout, stderr } = await replay('tx-1', ...args);
  expect([code, stdout]).toEqual([exitCode, '']);
  expect(stderr).toMatch(told);
  expect(await sessionCount()).toBe(0);
});

test('a reader that stops early ends the command without a message, and leaves no session', async () => {
  const script = 'set -o pipefail; "$@" | head -n 2; echo $?';
  const command = [process.execPath, KREPLAY, 'replay', '--url', served.url, 'tx-1', '--output', 'text'];
  const child = spawn('bash', ['-c', script, 'bash', ...command]);
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  await once(child, 'close');
  expect(stdout.split('\n')).toEqual([expect.stringMatching(/^OFFSET/), expect.stringMatching(/^ *\+0ns/), '0', '']);
  expect(stderr).toBe('');
  expect(await sessionCount()).toBe(0);
});

test.each<[string, string, string]>([
  ['deleted', 'DELETE', ''],
  ['stopped', 'POST', '/stop'],
])('a session that another client has %s is reported, and ends the command', async (what, method, command) => {
  const { child, done } = start('slow');
  await once(child.stdout, 'data');
  const { sessions } = (await served.get('/api/replay/sessions')).json;
  await served.get(`/api/replay/sessions/${sessions[0].session_id}${command}`, { method });
  const { code, stderr } = await done;
  expect(code).toBe(4);
  expect(stderr).toBe(`kreplay: the session was ${what} by another client\n`);
  expect(await sessionCount()).toBe(0);
});

/** A TCP proxy between the command and the daemon whose connections can be cut. */
async function cable() {
  const sockets = new Set<Socket>();
  let plugged = true;
  const server = createServer((near) => {
    if (!plugged) {
      near.destroy();
      return;
    }
    const far = connect(served.port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => {}).on('close', () => to.destroy());
      from.pipe(to);
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut(forGood = false) {
      plugged = !forGood;
      for (const socket of sockets) socket.destroy();
    },
    close: () => server.close(),
  };
}

test('a connection that breaks repeatedly loses nothing and repeats nothing', async () => {
  const { url, cut, close } = await cable();
  const { child, done } = start('tx-1', '--speed', '0.02', '--url', url);
  child.stdout.on('data', () => cut());
  const { code, stdout, stderr } = await done;
  close();
  const events = stdout.trimEnd().split('\n');
  expect(events.map((line) => JSON.parse(line).replay.index)).toEqual(ROWS.map((_, index) => index));
  expect(stderr).toMatch(/warning: .*; trying again\n/);
  expect(code).toBe(0);
});

test('a daemon that is no longer reachable is reported after some attempts', async () => {
  const { url, cut, close } = await cable();
  const { child, done } = start('slow', '--url', url);
  await once(child.stdout, 'data');
  cut(true);
  const { code, stderr } = await done;
  close();
  expect(stderr.match(/trying again/g)).toHaveLength(8);
  expect(stderr).toMatch(/\nkreplay: .*the daemon at http:\S+.*\n$/);
  expect(code).toBe(4);
  const { sessions } = (await served.get('/api/replay/sessions')).json;
  await served.get(`/api/replay/sessions/${sessions[0].session_id}`, { method: 'DELETE' });
});
