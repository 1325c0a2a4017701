/** Tests hundreds of clients that request and read large answers: small requests are answered meanwhile. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Running, start } from '../command_line.ts';
import { recordedWrites } from '../recorded.ts';

const EVENTS = 20_000;
const CLIENTS = join(import.meta.dirname, 'heavy_clients.py');
/** Share of the small answers that may exceed the limit. */
const LATE_SHARE_MAX = 0.05;

let daemon: Running;
let port: string;
beforeAll(async () => {
  const folder = recordedWrites(EVENTS);
  daemon = start('daemon', '--data', folder, '--listen', '127.0.0.1:0');
  port = /:(\d+)\n/.exec(await daemon.printed(/\n/))![1]!;
});
afterAll(async () => {
  daemon.child.kill('SIGKILL');
  await daemon.ended;
});

interface Seen {
  /** With the CPU time that the daemon's main thread took until each answer. */
  small: [path: string, status: string, ms: number][];
  heavy: string[];
}

test.each([
  ['500 pages of 10,000', '/api/events?limit=10000', 'application/json'],
  ['500 streams of 20,000', '/api/events', 'application/x-ndjson'],
  ['500 streams of columns', '/api/events', 'application/vnd.kreplay.columns'],
  ['500 sums over all', '/api/stats?group_by=service,comm', 'application/json'],
])('%s at once do not delay small answers', async (_name, path, accept) => {
  const args = [CLIENTS, port, '500', path, accept, String(daemon.child.pid)];
  const { stdout } = await promisify(execFile)('python3', args, { maxBuffer: 1e8 });
  const { small, heavy } = JSON.parse(stdout) as Seen;
  if (process.env.SIZES) {
    const slowest = Math.max(...small.map(([, , ms]) => ms));
    const answered = heavy.filter((status) => status === '200').length;
    process.stderr.write(`${small.length} small answers, the slowest after ${slowest} ms; ${answered} large ones\n`);
  }
  expect(new Set(small.map(([, status]) => status))).toEqual(new Set(['200']));
  expect(heavy).toHaveLength(500);
  // The daemon answers 503 where it has no room; the client may retry.
  expect(heavy.filter((status) => status !== '200' && status !== '503')).toEqual([]);
  expect(heavy).toContain('200');
  const late = small.filter(([, , ms]) => ms > 1000);
  expect(late.length).toBeLessThanOrEqual(small.length * LATE_SHARE_MAX);
});
