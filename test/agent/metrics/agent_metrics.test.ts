/** Tests an agent's counters, and the socket that it reports them on. */
import { once } from 'node:events';
import { chmodSync, existsSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { createBuckets } from '../../../agent/metrics/buckets.ts';
import { createCounts, createPeak } from '../../../agent/metrics/counts.ts';
import { openReportSocket } from '../../../agent/metrics/socket.ts';
import { openWriterThread } from '../../../agent/recording/write/writer_thread.ts';
import { blockOf, temporaryFolder } from '../recording/fixture.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

let folders = 0;
/** Path of a recording in a folder of its own. */
function newRecording(mode: number): string {
  const path = join(folder.path, String(folders++), 'recording.kreplay');
  mkdirSync(join(path, '..'));
  writeFileSync(path, '');
  chmodSync(path, mode);
  return path;
}

test('a duration is counted in the first bucket that holds it, or in the last one if none does', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 3, noNaN: true })), (durations) => {
      const buckets = createBuckets([0.5, 1, 2]);
      durations.forEach(buckets.add);
      const within = (from: number, to: number) => durations.filter((one) => one > from && one <= to).length;
      expect(buckets.counts).toEqual([within(-1, 0.5), within(0.5, 1), within(1, 2), within(2, 3)]);
      expect(buckets.sumSeconds).toBeCloseTo(durations.reduce((sum, one) => sum + one, 0));
    }),
  );
});

test('a peak is remembered for at least one minute and at most two', () => {
  let nowMs = 1000;
  const peak = createPeak(() => nowMs);
  peak.see(5);
  peak.see(3);
  expect(peak.value()).toBe(5);
  nowMs += 61_000;
  peak.see(2);
  expect(peak.value()).toBe(5);
  nowMs += 60_000;
  expect(peak.value()).toBe(2);
  nowMs += 200_000;
  expect(peak.value()).toBe(0);
});

test('events and losses are counted once, when they have been written to the recording', async () => {
  const path = join(newRecording(0o644), '..', 'counted.kreplay');
  const counts = createCounts('node-1');
  const writer = await openWriterThread({
    path,
    node: 'node-1',
    bootId: 'boot',
    machineId: 'machine',
    nowNs: () => 1_000_000_000n,
    onTrouble() {},
    onCommitted: counts.noteCommit,
  });
  const types = ['sys_write', 'block_io', 'sys_write', 'sys_write'];
  for (let round = 0; round < 3; round++) {
    writer.append(blockOf(types.map((event_type) => ({ event_type, timestamp_ns: 1n }))));
    writer.recordLoss({ cause: 'ring_full', eventType: 'block_io', count: 5, fromNs: 1n, toNs: 2n });
    writer.recordLoss({ cause: 'definition_lost', eventType: null, count: 1, fromNs: 1n, toNs: 2n });
    writer.flush();
  }
  await writer.close();
  const { recorded, lost, commits } = counts.report({
    ringCount: 1,
    ringBytes: 100,
    pendingBytes: 7,
    unsyncedSeconds: 0,
    failure: null,
  });
  expect(recorded).toEqual({ sys_write: 9, block_io: 3, sys_sync: 0 });
  expect(lost).toEqual([
    { cause: 'ring_full', event_type: 'block_io', count: 15 },
    { cause: 'definition_lost', event_type: null, count: 3 },
  ]);
  expect(commits.counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
});

const report = () =>
  createCounts('node-1').report({ ringCount: 1, ringBytes: 64, pendingBytes: 32, unsyncedSeconds: 0, failure: null });

async function asked(path: string): Promise<string> {
  return text(connect(path));
}

/** Resolves when the socket accepts requests. */
async function opened(recording: string) {
  const path = join(recording, '..', 'agent.sock');
  const onProblem = (message: string) => {
    throw new Error(message);
  };
  const socket = openReportSocket(path, report, { readableAs: recording, onProblem });
  while (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) await new Promise(setImmediate);
  return { path, close: socket.close };
}

test.each([
  [0o600, 0o600],
  [0o640, 0o620],
  [0o644, 0o622],
])('for a recording of mode %o, every user that may read it may query the agent', async (mode, socketMode) => {
  const { path, close } = await opened(newRecording(mode));
  expect(JSON.parse(await asked(path))).toMatchObject({ node: 'node-1', ring: { size_bytes: 64, pending_bytes: 32 } });
  expect(lstatSync(path).mode & 0o777).toBe(socketMode);
  close();
  expect(existsSync(path)).toBe(false);
});

test('the socket of a killed agent is replaced, and a file that is not a socket is kept', async () => {
  const recording = newRecording(0o644);
  const path = join(recording, '..', 'agent.sock');
  const before = createServer().listen(path);
  await once(before, 'listening');
  const { close } = await opened(recording);
  expect(JSON.parse(await asked(path)).node).toBe('node-1');
  close();
  before.close();

  writeFileSync(path, 'precious');
  const problem = await new Promise((onProblem) =>
    openReportSocket(path, report, { readableAs: recording, onProblem }),
  );
  expect(problem).toMatch(/the metrics of this process cannot be read/);
  expect(lstatSync(path).isFile()).toBe(true);
});

test('clients that send a lot, send nothing or disconnect at once do not keep others from being answered', async () => {
  const { path, close } = await opened(newRecording(0o644));
  const odd: Socket[] = [];
  for (let i = 0; i < 8; i++) {
    const socket = connect(path).on('error', () => {});
    odd.push(socket);
    if (i % 2 === 0) socket.write('x'.repeat(1 << 20));
    else if (i % 3 === 0) socket.destroy();
  }
  expect(JSON.parse(await asked(path)).node).toBe('node-1');
  for (const socket of odd) socket.destroy();
  close();
});
