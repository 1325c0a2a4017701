// A client gives up after 200 ms. It passes on a calm machine, failed when its disk was slow, fails in the same way
// when that incident is replayed, and passes the replay with a longer timeout. The client's own clock measures how long
// its orders take.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { SysSyncEvent } from '../../bpf/schema/api.ts';
import type { RunResult } from '../../daemon/run/report/result.ts';
import { type Recorded, record, removeFolders } from '../kernel/recorded_run.ts';
import { type SlowDisk, slowDisk } from '../kernel/slow_disk.ts';
import { type Finished, KREPLAY, kreplay, runCommand, temporaryFolder } from './kreplay.ts';

const WRITES_PER_SECOND = 4;
const TIMEOUT = '0.2';
const LONGER_TIMEOUT = '5';
const ORDERS = 6;
/** Besides the sync, an order takes a write and a switch of threads; a busy machine delays some of them by more. */
const NOISE_SECONDS = 0.1;

let disk: SlowDisk;
let folder: ReturnType<typeof temporaryFolder>;
let recorded: Recorded;
let incident: Finished;

const client = (timeout: string) => ['python3', join(import.meta.dirname, 'order_client.py'), disk.folder, timeout];
const secondsOf = ({ stdout }: Finished) => stdout.trim().split('\n').map(Number);

/** Each run begins with an empty log, as the incident did. */
function fresh(): void {
  rmSync(join(disk.folder, 'orders.log'), { force: true });
}

function replayed(timeout: string): { ended: Finished; result: RunResult } {
  fresh();
  const report = join(folder.path, 'run.json');
  const bundle = join(recorded.dataFolder, 'recording.kreplay');
  const ended = kreplay([
    ...['run', '--bundle', bundle, '--transaction', 'order-1', '--report', report, '--', ...client(timeout)],
  ]);
  return { ended, result: JSON.parse(readFileSync(report, 'utf8')) as RunResult };
}

beforeAll(async () => {
  folder = temporaryFolder();
  disk = slowDisk(WRITES_PER_SECOND);
  recorded = await record(() => {
    const labelled = [KREPLAY, 'exec', '--service', 'shop', '--transaction', 'order-1', '--', ...client(TIMEOUT)];
    incident = runCommand([...disk.command, ...labelled]);
  });
});
afterAll(() => {
  disk.remove();
  folder.remove();
  removeFolders();
});

function syncSeconds(): number[] {
  const syncs = recorded.events({ transactionId: 'order-1', eventTypes: ['sys_sync'] }) as SysSyncEvent[];
  return syncs.map(({ duration_ns }) => Number(duration_ns) / 1e9);
}

/** Each order took as long as its sync, and most of them no longer. */
function expectFelt(felt: readonly number[], syncs: readonly number[]): void {
  const longer = felt.map((seconds, order) => seconds - syncs[order]!).sort((a, b) => a - b);
  expect(longer[0]).toBeGreaterThanOrEqual(0);
  expect(longer[longer.length >> 1]).toBeLessThan(NOISE_SECONDS);
}

test('the incident: a caller gave up, and the recording has the syncs as the client observed them', () => {
  expect(incident.status).toBe(1);
  const [felt, syncs] = [secondsOf(incident), syncSeconds()];
  expect(syncs).toHaveLength(ORDERS);
  expect(Math.max(...syncs)).toBeGreaterThan(Number(TIMEOUT));
  expectFelt(felt, syncs);
});

test('without the incident the test passes', () => {
  fresh();
  const calm = runCommand(client(TIMEOUT));
  expect(calm.status).toBe(0);
  expect(Math.max(...secondsOf(calm))).toBeLessThan(Number(TIMEOUT));
});

test('when the incident is replayed the test fails, and each order takes as long as it did then', () => {
  const { ended, result } = replayed(TIMEOUT);
  expect([ended.status, result.verdict]).toEqual([1, 'replayed']);
  expectFelt(secondsOf(ended), syncSeconds());
});

test('with a longer timeout the test passes, under the same delays', () => {
  const { ended, result } = replayed(LONGER_TIMEOUT);
  expect([ended.status, result.verdict]).toEqual([0, 'replayed']);
  const planned = syncSeconds().reduce((sum, seconds) => sum + seconds, 0);
  expect(secondsOf(ended).reduce((sum, seconds) => sum + seconds, 0)).toBeGreaterThanOrEqual(planned);
});
