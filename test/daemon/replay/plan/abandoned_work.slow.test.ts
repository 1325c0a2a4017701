/** Tests that the planner ends work whose result is not wanted any more, while it works for others. */
import { request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { createPlannerThread } from '../../../../daemon/replay/plan/planner_thread.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { blockOf } from '../../../agent/recording/fixture.ts';
import { newFolder, newWriter, START } from '../../recorded.ts';
import { served } from '../../served.ts';

const TRANSACTION = 'large';
const BLOCKS = 64;
const BLOCK_ROWS = 4096;

/** A transaction of 262,144 events. */
function largeRecording(): string {
  const folder = newFolder();
  const writer = newWriter(folder);
  const context = writer.contextId({ transactionId: TRANSACTION, traceId: null, spanId: null });
  const common = { pid: 7, tid: 7, context, context_source: 1, context_quality: 1, duration_ns: 400 };
  const block = blockOf(Array.from({ length: BLOCK_ROWS }, () => common));
  const starts = block.columns.get('timestamp_ns') as BigUint64Array;
  for (let at = 0; at < BLOCKS; at++) {
    for (let i = 0; i < BLOCK_ROWS; i++) starts[i] = START - 60_000_000_000n + BigInt(at * BLOCK_ROWS + i) * 1000n;
    writer.append(block);
    writer.flush();
  }
  writer.close();
  return folder;
}

let folder: string;
beforeAll(() => {
  folder = largeRecording();
});

const PLAN = { transactionId: TRANSACTION, timeoutNs: null, maxGapNs: null, clockOffsetsNs: {} };
const LAYOUT = { latency: [{ fromIndex: 0, extraLatencyNs: 0 }] };
const WHAT_IF = { ...PLAN, extraLatencyNs: 0n, only: {}, limit: 0 };

async function withPlanner(work: (planner: ReturnType<typeof createPlannerThread>) => Promise<void>): Promise<void> {
  const planner = createPlannerThread({ data: folder, recordings: [] });
  await work(planner).finally(() => planner.close());
}

test('passes of a plan that is closed end before one that began after them', async () => {
  await withPlanner(async (planner) => {
    const [one, other] = [
      await planner.open({ ...PLAN, ...LAYOUT }, () => {}),
      await planner.open({ ...PLAN, ...LAYOUT }, () => {}),
    ];
    const ended: string[] = [];
    const { signal } = new AbortController();
    const passes = Array.from({ length: 20 }, () => one.endWith({ maxGapNs: 0 }, signal).catch(({ code }) => code));
    const last = other.endWith({ maxGapNs: 0 }, signal).then(() => ended.push('other'));
    one.close();
    const codes = await Promise.all(passes);
    ended.push('closed');
    await last;
    expect(codes).toEqual(passes.map(() => 'session_not_found'));
    expect(ended).toEqual(['closed', 'other']);
  });
});

test.each(['a pass', 'a projection'])('%s that is given up ends before one that began after it', async (what) => {
  await withPlanner(async (planner) => {
    const plan = await planner.open({ ...PLAN, ...LAYOUT }, () => {});
    const begin = (signal: AbortSignal) =>
      what === 'a pass' ? plan.endWith({ maxGapNs: 0 }, signal) : planner.whatIf(WHAT_IF, signal);
    const givingUp = new AbortController();
    const ended: string[] = [];
    const given = Array.from({ length: 20 }, () =>
      begin(givingUp.signal).then(
        () => ended.push('answered'),
        () => ended.push('given up'),
      ),
    );
    const last = begin(new AbortController().signal).then(() => ended.push('last'));
    givingUp.abort();
    await Promise.all([...given, last]);
    expect(ended).toEqual([...given.map(() => 'given up'), 'last']);
    await expect(begin(givingUp.signal)).rejects.toThrow();
  });
});

test('a projection over HTTP ends when its client has gone', async () => {
  let blocks = 0;
  const begun = Promise.withResolvers<void>();
  const store = openRecordingStore(folder);
  const app = await served({
    ...store,
    *scan(scan) {
      for (const scanned of store.scan(scan)) {
        if (++blocks > 4) begun.resolve();
        yield scanned;
      }
    },
  });
  const post = { method: 'POST', headers: { 'content-type': 'application/json' } };
  const body = `{"transaction_id":"${TRANSACTION}"}`;
  const asking = request({ host: '127.0.0.1', port: app.port, path: '/api/replay/whatif', ...post, agent: false });
  asking.on('error', () => {});
  asking.end(body);
  await begun.promise;
  asking.destroy();
  for (let before = -1; before !== blocks; await pause(100)) before = blocks;
  const readBefore = blocks;
  expect((await app.get('/api/replay/whatif', { ...post, body })).json.event_count).toBe(BLOCKS * BLOCK_ROWS);
  expect(readBefore).toBeLessThan((blocks - readBefore) / 2);
});
