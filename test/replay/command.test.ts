/** `kreplay replay` as a process, against a daemon on a real socket. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { type Served, serve } from '../daemon/served.ts';

const KREPLAY = fileURLToPath(new URL('../../kreplay.ts', import.meta.url));
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

async function sessionCount(): Promise<number> {
  return (await served.get('/api/replay/sessions')).json.sessions.length;
}

test('prints every event as it plays and what became of it, and leaves no session', async () => {
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

test('into a pipeline goes NDJSON, digits exact, with latency added', async () => {
  const { code, stdout, stderr } = await start('tx-1', '--speed', '5', '--extra-latency', '2ms').done;
  const lines = stdout.trimEnd().split('\n');
  expect(lines).toHaveLength(23);
  expect(lines[7]).toContain(`"timestamp_ns":${ROWS[7]!.at},`);
  expect(JSON.parse(lines[7]!).replay).toMatchObject({ index: 7, offset_ns: 21_000_000, duration_ns: 2_040_000 });
  expect(stderr).toContain('replayed 68.040ms at speed 5');
  expect(code).toBe(0);
});

test('an unknown transaction is one clear line', async () => {
  const { code, stdout, stderr } = await start('nope').done;
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toBe('kreplay: no events of transaction nope are recorded (transaction_not_found)\n');
});

test.each([[['tx-1', '--speed', '0']], [['tx-1', '--extra-latency', '2']], [['tx-1', '--extra-latency', '61m']], [[]]])(
  '%p is wrong usage',
  async (args) => {
    const { code, stdout } = await start(...args).done;
    expect([code, stdout]).toEqual([2, '']);
  },
);

test('interrupted, it stops and deletes its session', async () => {
  const { child, done } = start('slow');
  await once(child.stdout, 'data');
  expect(await sessionCount()).toBe(1);
  child.kill('SIGINT');
  const { code, stderr } = await done;
  expect(code).toBe(1);
  expect(stderr).toContain('stopped after 1 of 2 events');
  expect(await sessionCount()).toBe(0);
});

test('a daemon that goes away is said, and ends it', async () => {
  const other = await serve(recorded(ROWS.map((row, n) => ({ ...row, at: START + BigInt(n) * 60_000n * MS }))));
  const child = spawn(process.execPath, [KREPLAY, 'replay', 'tx-1', '--url', other.url]);
  const done = once(child, 'close');
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  await once(child.stdout, 'data');
  await other.close();
  expect((await done)[0]).toBe(1);
  expect(stderr).toContain('kreplay: the daemon ended the session (shutdown)');
});
