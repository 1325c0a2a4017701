// The main job as a new user does it: start `up`, run a labelled command, query its events over HTTP, replay them.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMissedEnd, withoutMissedEnds } from '../kernel/missed_ends.ts';
import { endAll, freePort, kreplay, type Running, start, temporaryFolder, wallClockNs } from './kreplay.ts';

const COUNT = 101;
/** No other program of this machine has this service. */
const SERVICE = `shop-${process.pid}`;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

const folder = temporaryFolder();
const data = join(folder.path, 'data');
const file = join(data, 'f');

let url: string;
let up: Running;
let bracket: { before: bigint; after: bigint };
/**
 * Events of the transaction: writes, their requests, requests of the file system for the file's own data, and reads of
 * program pages that were not in memory.
 */
let total: number;

/** Large enough for all that a busy host does during the test. */
const ANSWER_BYTES_MAX = 1 << 28;

/** The body of the response, as curl prints it. */
function curl(path: string, ...args: string[]): string {
  const options = { encoding: 'utf8', maxBuffer: ANSWER_BYTES_MAX } as const;
  return execFileSync('curl', ['--silent', '--show-error', ...args, `${url}${path}`], options);
}

const answerOf = (query: string) => JSON.parse(curl(`/api/events?${query}`));
const eventsOf = (query: string): Record<string, never>[] => answerOf(query).events;

/** Polls until all that has happened so far is in answers. */
async function untilRecorded(): Promise<void> {
  const nowNs = wallClockNs();
  const deadline = performance.now() + 10_000;
  const isRecorded = () => BigInt(/"recorded_until":(\d+)/.exec(curl('/api/events?limit=1'))![1]!) > nowNs;
  while (!isRecorded() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 50));
  expect(isRecorded()).toBe(true);
}

/** Removes the lines about slow requests from a log: a busy machine makes any request slow. */
const withoutSlowRequests = (log: string) => log.replaceAll(/^{.*"msg":"slow request"}\n/gm, '');

beforeAll(async () => {
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  up = start(['up', '--data', data, '--listen', `127.0.0.1:${port}`]);
  await up.says('Try next');
  const before = wallClockNs();
  const labels = ['--transaction', 'order-1', '--trace', TRACE, '--service', SERVICE];
  const dd = ['dd', 'if=/dev/zero', `of=${file}`, 'bs=4k', `count=${COUNT}`, 'oflag=direct', 'status=none'];
  const { status } = kreplay(['exec', ...labels, '--', ...dd]);
  expect(status).toBe(0);
  // Otherwise the file system would write the file's times and size seconds later, as further events of the transaction.
  execFileSync('sync', ['--file-system', file]);
  bracket = { before, after: wallClockNs() };
  await untilRecorded();
  total = eventsOf('transaction_id=order-1').length;
});

afterAll(() => {
  endAll();
  folder.remove();
});

test('up prints what is attached, where it records, and what to try next', () => {
  for (const text of ['call_enter', 'block_complete', join(data, 'recording.kreplay'), url, 'exec --transaction']) {
    expect(up.output()).toContain(text);
  }
  expect(withoutSlowRequests(withoutMissedEnds(up.complaints()))).toBe('');
});

/** The command line of a process: Node, its flags, the script, the command. */
function wordsOf(pid: number | string): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
}

test('its daemon gets the same Node flags as a daemon that the launcher starts alone', async () => {
  const alone = start(['daemon', '--data', data, '--no-state', '--listen', `unix:${join(folder.path, 'socket')}`]);
  await alone.says('serving');
  const children = execFileSync('pgrep', ['--parent', String(up.process.pid)], { encoding: 'utf8' })
    .trim()
    .split('\n');
  const daemon = children.map(wordsOf).find((words) => words.includes('daemon'))!;
  const flagsOf = (words: readonly string[]) => words.slice(1, words.indexOf('daemon') - 1);
  const flags = flagsOf(wordsOf(alone.process.pid!));
  alone.process.kill('SIGINT');
  await alone.ended;
  expect(flags).toContain('--no-maglev');
  expect(flagsOf(daemon)).toEqual(flags);
});

describe('the events of a labelled command', () => {
  test('are its writes and the requests that they caused, and no others', () => {
    const events = eventsOf('transaction_id=order-1');
    const writes = events.filter(({ event_type }) => event_type === 'sys_write');
    const requests = events.filter(({ operation, comm }) => operation === 'write' && comm === 'dd');
    expect(writes).toHaveLength(COUNT);
    for (const write of writes) {
      expect(write).toMatchObject({
        service_name: SERVICE,
        transaction_id: 'order-1',
        trace_id: TRACE,
        attribution: { source: 'marker', quality: 'exact' },
        comm: 'dd',
        result: 4096,
        bytes_requested: 4096,
        error: null,
        file,
        file_kind: 'regular',
        syscall: 'write',
      });
    }
    expect(requests.length).toBeGreaterThan(0);
    const others = events.filter(({ operation, comm }) => operation === 'write' && comm !== 'dd');
    expect(others.filter(({ comm }) => !/^(sync|jbd2\/|kworker\/)/.test(`${comm}`))).toEqual([]);
    for (const { attribution } of others) expect(attribution).toMatchObject({ source: 'origin' });
    for (const { bytes } of requests) expect(Number(bytes) % 4096).toBe(0);
    for (const request of requests)
      expect(request).toMatchObject({ service_name: SERVICE, transaction_id: 'order-1', error: null });
    const bytes = requests.map((request) => Number(request.bytes));
    const missing = COUNT * 4096 - bytes.reduce((sum, one) => sum + one, 0);
    const { losses } = answerOf('transaction_id=order-1&event_type=block_io').coverage;
    const missed = losses.filter(isMissedEnd).reduce((sum: number, { lost }: { lost: number }) => sum + lost, 0);
    // Each write is a request of its own.
    expect({ bytes, missing, isCounted: missing / 4096 <= missed }).toEqual({
      ...{ bytes, missing: expect.any(Number), isCounted: true },
    });
    expect([missing >= 0, missing % 4096]).toEqual([true, 0]);
    for (const { operation } of events) expect(['read', 'write', undefined]).toContain(operation);
  });

  test('have exact integer times within those that date printed', () => {
    const times = [...curl('/api/events?transaction_id=order-1').matchAll(/"timestamp_ns":(\d+)/g)];
    expect(times.length).toBe(total);
    for (const [, digits] of times) {
      expect(BigInt(digits!)).toBeGreaterThan(bracket.before);
      expect(BigInt(digits!)).toBeLessThan(bracket.after);
    }
  });

  test.each([
    ['trace_id=4BF92F3577B34DA6A3CE929D0E0E4736', 'all'],
    [`service=${SERVICE}`, 'all'],
    [`service=${SERVICE}&event_type=sys_write`, COUNT],
    [`service=${SERVICE}&event_type=block_io,sys_write`, 'all'],
    ['service=nobody', 0],
    ['transaction_id=order-1&node=elsewhere', 0],
    ['transaction_id=order-1&from=-10m', 'all'],
    ['transaction_id=order-1&to=-10m', 0],
    ['transaction_id=order-1&min_duration_ms=60000', 0],
    ['transaction_id=order-1&min_duration_ms=0.0001&limit=7', 7],
  ])('are found by %s', (query, count) => {
    expect(eventsOf(query).length).toBe(count === 'all' ? total : count);
  });

  test('stay in order over pages, and in both directions', () => {
    const ids = (query: string) => eventsOf(`transaction_id=order-1&${query}`).map(({ event_id }) => event_id);
    const all = ids('');
    expect(ids('order=desc')).toEqual(all.toReversed());
    const paged: string[] = [];
    let cursor = '';
    do {
      const page = JSON.parse(curl(`/api/events?transaction_id=order-1&limit=17${cursor}`));
      paged.push(...page.events.map(({ event_id }: { event_id: string }) => event_id));
      cursor = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : '';
    } while (cursor);
    expect(paged).toEqual(all);
    const lines = curl('/api/events?transaction_id=order-1', '-H', 'Accept: application/x-ndjson').trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).event_id)).toEqual(all);
  });

  test('are listed by kreplay events', () => {
    const { stdout, status } = kreplay(['events', '--url', url, '--transaction', 'order-1', '--type', 'sys_write']);
    expect(status).toBe(0);
    expect(stdout.trim().split('\n')).toHaveLength(COUNT);
  });
});

test('kreplay replay plays each of them once, in order and never early', () => {
  const { stdout, stderr, status } = kreplay([
    'replay',
    'order-1',
    '--url',
    url,
    '--speed',
    '2',
    '--extra-latency',
    '10us',
  ]);
  expect(status).toBe(0);
  const events = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events.map(({ event_id }) => event_id).toSorted()).toEqual(
    eventsOf('transaction_id=order-1')
      .map(({ event_id }) => String(event_id))
      .toSorted(),
  );
  expect(events.map(({ replay }) => replay.index)).toEqual(events.map((_, index) => index));
  for (const { replay } of events) expect(replay.lateness_ns).toBeGreaterThanOrEqual(0);
  expect(stderr).toContain('lateness');
});

test('a session is created, played, sought, paused and stopped over HTTP', () => {
  const post = (path: string, body: object) =>
    JSON.parse(curl(path, '-X', 'POST', '-H', 'Content-Type: application/json', '-d', JSON.stringify(body)));
  const session = post('/api/replay/sessions', { transaction_id: 'order-1', speed_factor: 0.001 });
  expect(session).toMatchObject({ state: 'ready', event_count: total, position_ns: 0 });
  const path = `/api/replay/sessions/${session.session_id}`;
  expect(post(`${path}/play`, {}).state).toBe('playing');
  expect(post(`${path}/pause`, {}).state).toBe('paused');
  expect(post(`${path}/seek`, { event_index: 50 })).toMatchObject({ state: 'paused', event_index: 50 });
  expect(JSON.parse(curl(path))).toMatchObject({ state: 'paused', event_index: 50 });
  expect(JSON.parse(curl('/api/replay/sessions')).sessions).toHaveLength(1);
  expect(post(`${path}/stop`, {}).state).toBe('stopped');
  expect(post(`${path}/play`, {})).toMatchObject({ status: 409, code: 'invalid_transition' });
});

test('neither the agent nor the daemon is recorded', () => {
  // The daemon has answered many requests by this point, and the agent has written many parts.
  const written = eventsOf('event_type=sys_write&limit=10000').map(({ file: path }) => String(path));
  expect(written.filter((path) => path.startsWith(join(data, 'recording')))).toEqual([]);
  const pids = execFileSync('pgrep', ['-f', `kreplay.js (up|agent|daemon) .*--data[= ]${data}`], { encoding: 'utf8' });
  expect(pids.trim().split('\n')).toHaveLength(3);
  for (const pid of pids.trim().split('\n')) expect(eventsOf(`pid=${pid}`)).toEqual([]);
});

test('Ctrl-C ends both cleanly', async () => {
  up.process.kill('SIGINT');
  expect(await up.ended).toEqual({ status: 0, signal: null });
  expect(up.output()).toMatch(/recorded \d+ events(, [^\n]*)?\n$/);
  expect(withoutSlowRequests(withoutMissedEnds(up.complaints()))).toBe('');
});
