/** Tests `kreplay whatif` against a daemon and against a file, and the same replay played. */
import { kreplay } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { type Row, recorded, recordingPath, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

const MS = 1_000_000n;

/** 30 events of two threads, the second one a service of its own; the last ends at 61.25 ms. */
const rows: Row[] = Array.from({ length: 30 }, (_, i) => ({
  at: START + BigInt(i) * 2n * MS,
  duration: MS + (BigInt(i % 7) * MS) / 4n,
  transaction: 'order-1',
  service: i % 3 === 2 ? 'db' : 'shop',
  tid: i % 3 === 2 ? 102 : 101,
  comm: i % 3 === 2 ? 'postgres' : 'node',
  file: `/data/orders-${i}.db`,
}));

let folder: string;
let app: Served;
beforeAll(async () => {
  folder = recorded(rows);
  app = await serve(folder);
});
afterAll(() => app.close());

const atDaemon = (command: string, ...args: string[]) => hosted(command, 'order-1', '--url', app.url, ...args);

const PLACES: [string, () => string[]][] = [
  ['a daemon', () => ['--url', app.url]],
  ['a file', () => ['--recording', recordingPath(folder)]],
];

test.each(PLACES)('a table, from %s', async (_, place) => {
  const asked = ['--extra-latency', '1.5ms', '--timeout', '88ms', '--limit', '1', '--output', 'table'];
  const { code, stdout } = await hosted('whatif', 'order-1', ...place(), ...asked);
  // The shop's last event is the 20th of its thread, and ended at 57 ms.
  expect([code, stdout.split('\n')]).toEqual([
    0,
    [
      'order-1: 1.5ms more for 30 of 30 events',
      'recorded 59.250ms, projected 87.000ms: 27.750ms longer',
      'timeout 88.000ms: kept',
      'smallest extra latency that times out: 1.550001ms',
      '',
    ],
  ]);
});

test('lists the events that are too late, and by how much', async () => {
  const asked = ['--extra-latency', '1.5ms', '--timeout', '84ms', '--output', 'table'];
  const { stdout } = await atDaemon('whatif', ...asked, '--limit', '1');
  const [, , timeout, , empty, heading, ...lines] = stdout.trimEnd().split('\n');
  expect(timeout).toBe('timeout 84.000ms: not kept, 2 events end after it');
  expect([empty, heading!.split(/ {2,}/)]).toEqual([
    '',
    ['', 'OFFSET', 'DURATION', 'TOO LATE BY', 'TYPE', 'WHAT', 'THREAD'],
  ]);
  expect(lines).toEqual([
    '+81.000ms   4.000ms      1.000ms  sys_write  write /data/orders-27.db  101 node test-node',
    'and 1 more; --limit shows more of them',
  ]);
});

test.each([
  ['0ms, it did so when it was recorded', ['--timeout', '59ms']],
  ['0.075001ms', ['--timeout', '60ms', '--only', 'service=db']],
  ['none, no latency delays an event', ['--timeout', '60ms', '--only', 'service=nobody']],
])('the smallest extra latency: %s', async (smallest, asked) => {
  const { stdout } = await atDaemon('whatif', ...asked, '--output', 'table');
  expect(stdout).toContain(`smallest extra latency that times out: ${smallest}\n`);
});

test('the latency may apply to only some events', async () => {
  const chosen = ['--only', 'event_type=sys_write,service=db', '--only', 'node=test-node'];
  const { stdout } = await atDaemon('whatif', '--extra-latency', '2ms', ...chosen);
  expect(JSON.parse(stdout)).toMatchObject({
    affected_count: 10,
    replay_duration_ns: Number(59n * MS + MS / 4n + 20n * MS),
  });
});

test.each([
  ['--extra-latency', '1.550001ms', 3],
  ['--extra-latency', '1.55ms', 0],
])('with --fail-if-timeout %s %s exits with %d', async (option, latency, expected) => {
  const { code } = await kreplay(
    'whatif',
    'order-1',
    '--url',
    app.url,
    option,
    latency,
    '--timeout',
    '88ms',
    '--fail-if-timeout',
  );
  expect(code).toBe(expected);
});

test.each([
  [['--fail-if-timeout'], '--timeout'],
  [['--only', 'comm=node'], 'event_type, service, node'],
  [['--only', 'service'], 'FIELD=VALUE'],
  [['--extra-latency', '2h'], 'at most 1h'],
])('%j is a usage error', async (args, message) => {
  const { code, stderr } = await atDaemon('whatif', ...args);
  expect([code, stderr.includes(message)]).toEqual([2, true]);
});

test('an unknown type and an unrecorded transaction are reported', async () => {
  const type = await atDaemon('whatif', '--only', 'event_type=nothing');
  expect([type.code, type.stderr]).toEqual([1, expect.stringContaining('sys_write')]);
  const transaction = await hosted('whatif', 'order-2', '--recording', recordingPath(folder));
  expect([transaction.code, transaction.stderr]).toEqual([1, expect.stringContaining('transaction_not_found')]);
});

test('played with that latency, the same events follow the timeout', async () => {
  const asked = ['--extra-latency', '1.5ms', '--timeout', '50ms', '--output'];
  const told = JSON.parse((await atDaemon('whatif', ...asked, 'json', '--limit', '1000')).stdout);
  const { stdout } = await atDaemon('replay', ...asked, 'ndjson', '--speed', '100');
  const played = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ replay }) => replay.after_timeout)
    .map(({ event_id, replay }) => [event_id, replay.offset_ns, replay.duration_ns]);
  expect(told.after_timeout_count).toBe(played.length);
  expect(
    told.after_timeout.map(({ event_id, replay_offset_ns, replay_duration_ns }: Record<string, unknown>) => [
      event_id,
      replay_offset_ns,
      replay_duration_ns,
    ]),
  ).toEqual(played);
  expect(played.length).toBeGreaterThan(5);
});
