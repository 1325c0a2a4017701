/** Tests what the daemon logs: failures and slow requests, by route and id, and never a client's secrets. */
import { kreplay, type Running, start } from '../command_line.ts';
import { newFolder, recorded, START } from '../recorded.ts';

const running: Running[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

const SECRET = 'hunter2';

/** Lines that the daemon logs while it answers requests for these paths. */
async function logged(data: string, flags: readonly string[], paths: readonly string[]): Promise<string[]> {
  const one = start('daemon', '--data', data, '--listen', '127.0.0.1:0', ...flags);
  running.push(one);
  const url = / at (\S+)\n/.exec(await one.printed(/\n/))![1]!;
  const headers = { authorization: `Bearer ${SECRET}`, cookie: `session=${SECRET}`, 'x-request-id': 'mine' };
  for (const path of paths) await (await fetch(url + path, { headers })).text();
  one.child.kill('SIGTERM');
  const { stderr } = await one.ended;
  expect(stderr).not.toContain(SECRET);
  return stderr.split('\n').slice(0, -1);
}

const PATHS = [
  '/api/events',
  '/api/events/x',
  '/api/events?colour=red',
  `/api/events/${SECRET}`,
  `/${SECRET}?${SECRET}`,
];

test('successful and invalid requests are not logged', async () => {
  expect(await logged(recorded([{ at: START }]), [], PATHS)).toEqual([]);
});

test('at level debug every request is logged as a line', async () => {
  const lines = await logged(recorded([{ at: START }]), ['--log-level', 'debug'], PATHS);
  const seen = lines
    .map((line) => JSON.parse(line))
    .map(({ msg, route, status, code, id }) => [msg, route, status, code, id]);
  expect(seen).toEqual([
    ['request', '/api/events', 200, undefined, 'mine'],
    ['request', '/api/events/:event_id', 404, 'event_not_found', 'mine'],
    ['request', '/api/events', 400, 'invalid_parameter', 'mine'],
    ['request', '/api/events/:event_id', 404, 'event_not_found', 'mine'],
    ['request', 'none', 404, 'not_found', 'mine'],
  ]);
});

test('a failure is logged with its reason', async () => {
  const folder = newFolder();
  const [line, ...more] = await logged(folder, [], ['/healthz', '/api/events?service=a']);
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
  const [line, ...more] = await logged(recorded([{ at: START }]), ['--log-slower-than', '1ns'], ['/api/nodes']);
  expect(more).toEqual([]);
  expect(JSON.parse(line!)).toMatchObject({ level: 30, msg: 'slow request', route: '/api/nodes', status: 200 });
});

test('the text format is a readable line', async () => {
  const flags = ['--log-level', 'debug', '--log-format', 'text'];
  const [line] = await logged(recorded([{ at: START }]), flags, ['/api/nodes']);
  expect(line).toMatch(/^\S+Z kreplay-daemon debug request method=GET route=\/api\/nodes status=200 ms=\S+ id=mine$/);
});

test.each([
  ['--log-format', 'xml'],
  ['--log-slower-than', 'soon'],
])('%s %s is a usage error', async (...flag) => {
  expect((await kreplay('daemon', ...flag)).code).toBe(2);
});
