/** Tests clients that request much and read nothing: others are answered, and memory is bounded and released. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { endAll, freePort, start } from '../../e2e/kreplay.ts';
import { recordedWrites } from '../recorded.ts';

const EVENTS = 100_000;
/** Memory that the daemon may keep half a minute after all clients have left. */
const MORE_MIB_MAX = 150;
const CLIENTS = join(import.meta.dirname, 'unread_clients.py');

/** The built program: how it is launched decides how much memory it keeps. */
let daemon: ReturnType<typeof start>;
let port: string;
beforeAll(async () => {
  const folder = recordedWrites(EVENTS);
  port = String(await freePort());
  daemon = start(['daemon', '--data', folder, '--listen', `127.0.0.1:${port}`]);
  await daemon.says(port);
});
afterAll(endAll);

interface Seen {
  before: number;
  most: number;
  after: number;
  /** CPU time that the daemon's main thread takes for a page of 10,000 events. */
  page: number;
  /** With the CPU time that the daemon's main thread took until each answer. */
  first: [path: string, status: string, ms: number][];
  then: [path: string, status: string, ms: number][];
}

test.each([
  ['1024 streams', 1024, '/api/events', 'application/x-ndjson'],
  ['1024 streams of columns', 1024, '/api/events', 'application/vnd.kreplay.columns'],
  ['400 pages of 10,000', 400, '/api/events?limit=10000', 'application/json'],
])('%s that are never read keep no client out, and release their memory', async (_name, count, path, accept) => {
  const args = [CLIENTS, port, String(count), path, accept, String(daemon.process.pid), String(MORE_MIB_MAX)];
  const { stdout } = await promisify(execFile)('python3', args, { maxBuffer: 1e8 });
  const { before, most, after, page, first, then } = JSON.parse(stdout) as Seen;
  if (process.env.SIZES) {
    const slowest = (answers: Seen['first']) => Math.max(...answers.map(([, , ms]) => ms));
    process.stderr.write(`${before} ${most} ${after} MiB, ${slowest(first)} ${slowest(then)} ms, ${page} ms a page\n`);
  }
  expect(new Set([...first, ...then].map(([, status]) => status))).toEqual(new Set(['200']));
  // The first of them may come after all large requests have begun.
  for (const [, , ms] of first) expect(ms).toBeLessThan(100 * page);
  // The median is compared, because what the large requests have begun may come in between.
  expect(then.map(([, , ms]) => ms).sort((a, b) => a - b)[Math.floor(then.length / 2)]).toBeLessThan(3 * page);
  expect(most).toBeLessThan(500);
  expect(after - before).toBeLessThan(MORE_MIB_MAX);
});
