/** Tests what the daemon logs: failures and slow requests, by route and id, and never a client's secrets. */
import { PassThrough } from 'node:stream';
import { createLog, type LogFlags } from '../../../agent/output/log.ts';
import { type Running, start } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, recorded, START } from '../recorded.ts';
import { served } from '../served.ts';

const running: Running[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

const SECRET = 'hunter2';

const HEADERS = { authorization: `Bearer ${SECRET}`, cookie: `session=${SECRET}`, 'x-request-id': 'mine' };

/** Lines that a daemon process logs while it answers requests for these paths. */
async function loggedBy(data: string, flags: readonly string[], paths: readonly string[]): Promise<string[]> {
  const one = start('daemon', '--data', data, '--listen', '127.0.0.1:0', ...flags);
  running.push(one);
  const url = / at (\S+)\n/.exec(await one.printed(/\n/))![1]!;
  for (const path of paths) await (await fetch(url + path, { headers: HEADERS })).text();
  one.child.kill('SIGTERM');
  return linesOf((await one.ended).stderr);
}

/** Lines that the app logs while it answers requests for these paths, however long it takes for that. */
async function logged(data: string, flags: LogFlags, paths: readonly string[]): Promise<string[]> {
  const output = new PassThrough();
  const log = createLog('kreplay-daemon', flags, output as unknown as NodeJS.WriteStream);
  const app = await served(data, { log, slowMs: Number.POSITIVE_INFINITY });
  for (const path of paths) await app.get(path, { headers: HEADERS });
  await app.close();
  return linesOf(String(output.read() ?? ''));
}

function linesOf(text: string): string[] {
  expect(text).not.toContain(SECRET);
  return text.split('\n').slice(0, -1);
}

const PATHS = [
  '/api/events',
  '/api/events/x',
  '/api/events?colour=red',
  `/api/events/${SECRET}`,
  `/${SECRET}?${SECRET}`,
];

test('successful and invalid requests are not logged', async () => {
  expect(await logged(recorded([{ at: START }]), { logLevel: 'info' }, PATHS)).toEqual([]);
});

test('at level debug every request is logged as a line', async () => {
  const lines = await logged(recorded([{ at: START }]), { logLevel: 'debug' }, PATHS);
  const seen = lines
    .map((line) => JSON.parse(line))
    .map(({ msg, method, route, status, code, id }) => [msg, method, route, status, code, id]);
  expect(seen).toEqual([
    ['request', 'GET', '/api/events', 200, undefined, 'mine'],
    ['request', 'GET', '/api/events/:event_id', 404, 'event_not_found', 'mine'],
    ['request', 'GET', '/api/events', 400, 'invalid_parameter', 'mine'],
    ['request', 'GET', '/api/events/:event_id', 404, 'event_not_found', 'mine'],
    ['request', 'GET', 'none', 404, 'not_found', 'mine'],
  ]);
});

test('a failure is logged with its reason', async () => {
  const folder = newFolder();
  const [line, ...more] = await logged(folder, { logLevel: 'info' }, ['/healthz', '/api/events?service=a']);
  expect(more).toEqual([]);
  expect(JSON.parse(line!)).toMatchObject({
    level: 40,
    msg: 'request failed',
    method: 'GET',
    route: '/api/events',
    status: 503,
    id: 'mine',
    code: 'recording_missing',
    detail: expect.stringContaining(folder),
  });
});

test('slow requests are logged from the threshold on', async () => {
  const [line, ...more] = await loggedBy(recorded([{ at: START }]), ['--log-slower-than', '1ns'], ['/api/nodes']);
  expect(more).toEqual([]);
  expect(JSON.parse(line!)).toMatchObject({ level: 30, msg: 'slow request', route: '/api/nodes', status: 200 });
});

test('the text format is a readable line', async () => {
  const flags = ['--log-level', 'debug', '--log-format', 'text'];
  const [line] = await loggedBy(recorded([{ at: START }]), flags, ['/api/nodes']);
  expect(line).toMatch(/^\S+Z kreplay-daemon debug request method=GET route=\/api\/nodes status=200 ms=\S+ id=mine$/);
});

test.each([
  ['--log-format', 'xml'],
  ['--log-slower-than', 'soon'],
])('%s %s is a usage error', async (...flag) => {
  expect((await hosted('daemon', ...flag)).code).toBe(2);
});
