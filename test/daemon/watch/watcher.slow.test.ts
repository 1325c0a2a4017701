/** Tests a watcher whose steps fail for a while: nothing is counted twice, and no failure holds up the others. */
import { pino } from 'pino';
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { createCounters } from '../../../daemon/metrics/watch_counters.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { Extent } from '../../../daemon/store/embedded/recordings.ts';
import type { Rule } from '../../../daemon/watch/rules.ts';
import { openWatchState, type WatchState } from '../../../daemon/watch/state.ts';
import { type WatcherOptions, watch } from '../../../daemon/watch/watcher.ts';
import { appendRows, newFolder, newWriter, recordingPath, START, setMeta } from '../recorded.ts';
import { until } from './receiver.ts';

const S = 1_000_000_000n;
const LONG: Rule = { name: 'long', minDurationNs: S, coolDownNs: 0n };

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Watches a folder in this process. */
function begin(folder: string, state: WatchState): WatcherOptions & { lines: string[] } {
  const ending = new AbortController();
  const lines: string[] = [];
  const recordings = openRecordingStore(folder, [], undefined, { isLiveOnly: true });
  const options: WatcherOptions = {
    recordings,
    data: folder,
    rules: [LONG],
    state,
    webhook: undefined,
    beforeNs: 0n,
    quietMs: 60_000,
    folder: newFolder(),
    bundleBytesMax: 1 << 30,
    bundlesMax: 10,
    perMinuteMax: 1000,
    queueMax: 10,
    giveUpMs: 60_000,
    counters: createCounters([LONG.name]),
    onWatching() {},
    log: pino({}, { write: (line: string) => void lines.push(line) }),
    signal: ending.signal,
  };
  const ended = watch(options);
  endings.push(async () => {
    ending.abort();
    await ended;
    recordings.close();
  });
  return { ...options, lines };
}

function openState(): WatchState {
  const state = openWatchState(newFolder());
  endings.push(() => state.close());
  return state;
}

test('what retention removed is counted once, however often the state cannot be written meanwhile', async () => {
  const folder = newFolder();
  const clock = { nowNs: START };
  const origin = { node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs };
  const writer = openWriter({ path: recordingPath(folder), ...origin, retention: { ageNs: 1000n * S } });
  endings.push(() => writer.close());
  const rows = Array.from({ length: 20_000 }, (_, i) => ({ at: START + BigInt(i) * S, transaction: `tx-${i}` }));
  appendRows(writer, rows);
  clock.nowNs = START + 12_000n * S;
  appendRows(writer, [{ at: START + 20_000n * S, duration: 2n * S, transaction: 'order-1' }]);
  const store = openRecordingStore(folder);
  const [{ recordingId, end }] = store.extents() as [Extent];
  const { count } = store.countRemoved(recordingId, 0, end);
  store.close();
  expect(count).toBeGreaterThan(0);

  const state = openState();
  state.move(recordingId, 0);
  let refused = 0;
  const watcher = begin(folder, {
    ...state,
    change(work) {
      if (refused++ < 3) throw new Error('no space is left');
      return state.change(work);
    },
  });
  await until(() => watcher.counters.pinned > 0);
  expect(refused).toBeGreaterThan(3);
  expect([watcher.counters.failures.follow, watcher.counters.missedEvents]).toEqual([3, count]);
  expect(watcher.lines.filter((line) => line.includes('retention has removed'))).toHaveLength(1);
}, 60_000);

/** Sets the limit of the recording, of which pins may take half. */
function setLimit(folder: string, writer: RecordingWriter, bytes: bigint): void {
  writer.flush();
  setMeta(recordingPath(folder), { retain_bytes: bytes });
}

test('pins that are refused hold up no pin that fits, and are set once there is room', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  endings.push(() => writer.close());
  appendRows(writer, [{ at: START }]);
  const state = openState();
  const watcher = begin(folder, state);
  await until(() => state.hasPosition());
  setLimit(folder, writer, 65_536n);
  const large = Array.from({ length: 5 }, (_, i) => `large-${i}`);
  // Random durations do not compress: each takes more than the half.
  for (const [i, transaction] of large.entries()) {
    const at = START + BigInt(i) * 1000n * S;
    const rows = Array.from({ length: 20_000 }, (_, j) => {
      const duration = BigInt(Math.floor(Math.random() * 1e9));
      return { at: at + BigInt(j * 7919), duration, transaction };
    });
    appendRows(writer, [...rows, { at: at + 10n * S, transaction }]);
  }
  // They have failed so often by then that the next attempt is seconds away.
  await until(() => watcher.counters.failures.pin >= 4 * large.length);
  const beganMs = performance.now();
  appendRows(writer, [
    ...Array.from({ length: 10 }, () => ({ at: START + 9000n * S })),
    { at: START + 9000n * S, duration: 2n * S, transaction: 'small' },
  ]);
  await until(() => watcher.counters.pinned > 0);
  const tookMs = performance.now() - beganMs;
  expect(watcher.recordings.listPins().map(({ transactionId }) => transactionId)).toEqual(['small']);
  expect(tookMs).toBeLessThan(1500);
  expect(watcher.lines.filter((line) => line.includes('a step failed'))).toHaveLength(1);

  setLimit(folder, writer, 1n << 30n);
  await until(() => watcher.counters.pinned === large.length + 1, 60_000);
  expect(watcher.counters.pinned).toBe(large.length + 1);
  expect(watcher.lines.filter((line) => line.includes('it works again'))).toHaveLength(1);
}, 180_000);
