/**
 * Tests a watcher whose steps fail for a while: nothing is counted twice, and no failure holds up the others. No slow
 * transaction is missed because its id is used again, in this recording or in the next one.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { setAside } from '../../../agent/recording/write/set_aside.ts';
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { createCounters } from '../../../daemon/metrics/watch_counters.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { Extent } from '../../../daemon/store/embedded/recordings.ts';
import type { Rule } from '../../../daemon/watch/rules.ts';
import { openWatchState, type WatchState } from '../../../daemon/watch/state.ts';
import { buildLimits, type WatcherOptions, watch } from '../../../daemon/watch/watcher.ts';
import { openWebhook } from '../../../daemon/watch/webhook.ts';
import { appendRows, newFolder, newWriter, type Row, recordingPath, START, setMeta } from '../recorded.ts';
import { type Receiver, startReceiver, until } from './receiver.ts';

const S = 1_000_000_000n;
const LONG: Rule = { name: 'long', minDurationNs: S, coolDownNs: 0n };

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Watches a folder in this process. */
function begin(
  folder: string,
  state: WatchState,
  more: Partial<WatcherOptions> = {},
): WatcherOptions & { lines: string[] } {
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
    ...more,
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
  expect([watcher.counters.failures.follow, watcher.counters.missedEvents.retention]).toEqual([3, count]);
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

interface Begun extends ReturnType<typeof begin> {
  recordingId: string;
  writer: RecordingWriter;
  receiver: Receiver;
}

/** Watches a new recording, and tells a receiver. */
async function beginRecorded(more: Partial<WatcherOptions> = {}): Promise<Begun> {
  const folder = newFolder();
  const writer = newWriter(folder);
  endings.push(() => writer.close());
  appendRows(writer, [{ at: START }]);
  const receiver = await startReceiver();
  endings.push(() => receiver.close());
  const webhook = openWebhook({ url: new URL(receiver.url), timeoutMs: 5000 });
  const state = openState();
  const watcher = begin(folder, state, { webhook, quietMs: 100, ...more });
  await until(() => state.hasPosition());
  const [{ recordingId }] = watcher.recordings.extents() as [Extent];
  return { ...watcher, recordingId, writer, receiver };
}

/** Sets the recording aside, as an agent does with a damaged one, and begins another one in its place. */
function beginAnew({ data, writer }: Begun): RecordingWriter {
  writer.close();
  setAside(recordingPath(data), Date.now());
  const next = newWriter(data);
  endings.push(() => next.close());
  return next;
}

const slow = (transaction: string, at = START): Row => ({ at, duration: 2n * S, transaction });

const listPinned = ({ recordings }: WatcherOptions) => recordings.listPins().map(({ transactionId }) => transactionId);

const listMatches = ({ lines }: Begun) =>
  lines
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg === 'a transaction matches')
    .map(({ transaction }) => transaction);

test('an id that matched in a recording matches in the next one, too', async () => {
  const watcher = await beginRecorded();
  appendRows(watcher.writer, [slow('order-1')]);
  await until(() => watcher.counters.pinned === 1);
  const next = beginAnew(watcher);
  appendRows(next, [slow('order-1')]);
  await until(() => watcher.receiver.taken.length === 2);
  expect([listMatches(watcher), listPinned(watcher)]).toEqual([['order-1', 'order-1'], ['order-1']]);
  expect(new Set(watcher.receiver.seen).size).toBe(2);
}, 60_000);

test('a quick transaction is not long because of its id in an earlier recording', async () => {
  const watcher = await beginRecorded();
  appendRows(watcher.writer, [{ at: START, transaction: 'order-1' }, slow('order-2')]);
  await until(() => watcher.counters.pinned === 1);
  const next = beginAnew(watcher);
  appendRows(next, [{ at: START + 10n * S, transaction: 'order-1' }, slow('order-3', START + 10n * S)]);
  await until(() => watcher.counters.pinned === 2);
  expect([listMatches(watcher), listPinned(watcher)]).toEqual([['order-2', 'order-3'], ['order-3']]);
}, 60_000);

test('what is left to do for an earlier recording is not done with the same id of the next one', async () => {
  const watcher = await beginRecorded();
  const { state, recordingId, receiver } = watcher;
  appendRows(watcher.writer, [slow('order-1')]);
  await until(() => receiver.taken.length === 1);
  const next = beginAnew(watcher);
  appendRows(next, [
    { at: START, transaction: 'order-1' },
    { at: START, transaction: 'order-2' },
  ]);
  // It matched in the earlier recording, and was neither pinned nor told until that was set aside.
  const left = { rule: 'long', transactionId: 'order-2', recordingId, service: 'shop', atNs: START };
  state.change(() => state.add(left, buildLimits(watcher), Date.now()));
  await until(() => receiver.taken.length === 2 && state.listFollowed(0, 10).length === 0);
  expect(state.findIncident(recordingId, 'order-1')).toMatchObject({ pin: 'set', bundle: 'written', followed: 0 });
  expect(state.findIncident(recordingId, 'order-2')).toMatchObject({ pin: 'gone', bundle: 'gone', followed: 0 });
  expect([listPinned(watcher), state.count().bundles]).toEqual([[], 1]);
  expect(receiver.taken.map(({ body }) => [body.transaction, body.pinned])).toEqual([
    [expect.objectContaining({ transaction_id: 'order-1', duration_ns: Number(2n * S) }), true],
    [{ transaction_id: 'order-2' }, false],
  ]);
}, 60_000);

/** The lines of the log about recordings of which events are not examined. */
const listUnexamined = ({ lines }: Pick<Begun, 'lines'>) =>
  lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg.includes('examined'));

test('events of a recording that was set aside while no watcher ran are counted', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(writer, [{ at: START }]);
  const state = openState();
  const store = openRecordingStore(folder);
  const [{ recordingId, end }] = store.extents() as [Extent];
  store.close();
  state.move(recordingId, end);
  appendRows(writer, [slow('order-1'), slow('order-2'), slow('order-3')]);
  writer.close();
  const { place } = setAside(recordingPath(folder), Date.now());
  const next = newWriter(folder);
  endings.push(() => next.close());
  appendRows(next, [slow('order-4')]);

  const watcher = begin(folder, state);
  await until(() => watcher.counters.pinned === 1);
  expect(watcher.counters.missedEvents).toEqual({ retention: 0, set_aside: 3 });
  expect(listUnexamined(watcher)).toMatchObject([{ recording: recordingId, events: 3, file: place, level: 50 }]);
  const again = begin(folder, state);
  appendRows(next, [slow('order-5')]);
  await until(() => again.counters.behindEvents === 0 && watcher.counters.pinned + again.counters.pinned === 2);
  expect(listUnexamined(again)).toEqual([]);
}, 60_000);

test('a recording that was examined to its end is set aside without a word', async () => {
  const watcher = await beginRecorded();
  appendRows(watcher.writer, [slow('order-1')]);
  await until(() => watcher.counters.pinned === 1);
  appendRows(beginAnew(watcher), [slow('order-2')]);
  await until(() => watcher.counters.pinned === 2 && watcher.state.listPositions().length === 1);
  expect(watcher.state.listPositions()).toHaveLength(1);
  expect(watcher.counters.missedEvents).toEqual({ retention: 0, set_aside: 0 });
  expect(listUnexamined(watcher)).toEqual([]);
}, 60_000);

test('what a watcher has not yet examined of a recording that is set aside or removed meanwhile is counted', async () => {
  for (const isRemoved of [false, true]) {
    const folder = newFolder();
    const writer = newWriter(folder);
    appendRows(writer, [{ at: START }]);
    const state = openState();
    const store = openRecordingStore(folder, [], undefined, { isLiveOnly: true });
    endings.push(() => store.close());
    const [{ recordingId, end }] = store.extents() as [Extent];
    state.move(recordingId, end);
    appendRows(writer, [slow('order-1'), ...Array.from({ length: 20_000 }, (_, i) => ({ at: START + BigInt(i) }))]);
    writer.flush();
    let isLeft = false;
    const watcher = begin(folder, state, {
      recordings: {
        ...store,
        arrivals(request) {
          const arrived = store.arrivals(request);
          if (isLeft) return arrived;
          isLeft = true;
          writer.close();
          const { place } = setAside(recordingPath(folder), Date.now());
          if (isRemoved) rmSync(place);
          const next = newWriter(folder);
          endings.push(() => next.close());
          appendRows(next, [slow('order-2')]);
          return arrived;
        },
      },
    });
    await until(() => watcher.counters.pinned === 1 && state.listPositions().length === 1);
    expect(watcher.counters.missedEvents.set_aside).toBe(20_001);
    expect(listUnexamined(watcher)).toHaveLength(1);
  }
}, 60_000);

test('each attempt of a delivery says whether the transaction is pinned at that time', async () => {
  const watcher = await beginRecorded();
  const { receiver, writer, state, recordingId } = watcher;
  receiver.setLies(() => 'error');
  appendRows(writer, [slow('order-1'), slow('order-2')]);
  await until(() => receiver.lied.size > 0 && new Set(receiver.seen).size === 2);
  expect(state.findIncident(recordingId, 'order-1')).toMatchObject({ pin: 'set' });
  await watcher.recordings.unpin('order-1');
  receiver.setLies(() => undefined);
  await until(() => receiver.taken.length === 2);
  const told = receiver.taken.map(({ body }) => [body.transaction.transaction_id, body.pinned]);
  expect(told.sort()).toEqual([
    ['order-1', false],
    ['order-2', true],
  ]);
}, 60_000);

test('the log names each transaction that a rate keeps', async () => {
  const rules = [{ ...LONG, atLeast: { count: 3, withinNs: 10n * S } }];
  const watcher = await beginRecorded({ rules });
  appendRows(watcher.writer, [slow('order-1'), slow('order-2')]);
  appendRows(watcher.writer, [slow('order-3')]);
  await until(() => watcher.counters.pinned === 3);
  expect(listMatches(watcher).sort()).toEqual(['order-1', 'order-2', 'order-3']);
  expect(watcher.counters.matches.get('long')).toBe(3);
}, 60_000);

/** Takes a transaction as one that has had no event for a minute. */
function rest({ state, recordingId }: Begun, transaction: string): void {
  state.leave(state.findIncident(recordingId, transaction)!.incidentId);
}

const LATER = START + 3600n * S;

test('an id that is used again matches again once its pin was removed, with a bundle and a call', async () => {
  const watcher = await beginRecorded();
  const { writer, receiver, folder, state } = watcher;
  appendRows(writer, [slow('order-1')]);
  await until(() => receiver.taken.length === 1);
  rest(watcher, 'order-1');
  await watcher.recordings.unpin('order-1');
  appendRows(writer, [slow('order-1', LATER)]);
  await until(() => receiver.taken.length === 2);
  expect([listMatches(watcher), listPinned(watcher)]).toEqual([['order-1', 'order-1'], ['order-1']]);
  expect(new Set(receiver.seen).size).toBe(2);
  const files = receiver.taken.map(({ body }) => body.bundle!.file);
  expect([new Set(files).size, state.count().bundles]).toEqual([2, 2]);
  expect(files.map((file) => existsSync(join(folder, file)))).toEqual([true, true]);
  // What goes on is the same match.
  appendRows(writer, [slow('order-1', LATER + 3n * S), slow('order-2', LATER)]);
  await until(() => receiver.taken.length === 3);
  expect(listMatches(watcher)).toEqual(['order-1', 'order-1', 'order-2']);
}, 60_000);

test('an id that was gone before it was pinned matches again when it is used again', async () => {
  const watcher = await beginRecorded();
  const { writer, state, recordingId } = watcher;
  const gone = { rule: 'long', transactionId: 'order-1', recordingId, service: 'shop', atNs: START };
  state.change(() => state.add(gone, buildLimits(watcher), Date.now()));
  await until(() => watcher.counters.gone === 1 && state.listFollowed(0, 10).length === 0);
  expect(state.findIncident(recordingId, 'order-1')).toMatchObject({ pin: 'gone', bundle: 'gone' });
  appendRows(writer, [slow('order-1', LATER)]);
  await until(() => watcher.counters.pinned === 1);
  expect(listPinned(watcher)).toEqual(['order-1']);
}, 60_000);

test('an id that a limit dropped matches when it is used again', async () => {
  const rules = [{ ...LONG, atMost: { count: 1, withinNs: 60n * S } }];
  const watcher = await beginRecorded({ rules });
  appendRows(watcher.writer, [slow('order-1')]);
  appendRows(watcher.writer, [slow('order-2')]);
  await until(() => watcher.counters.dropped.rate > 0);
  appendRows(watcher.writer, [slow('order-2', LATER)]);
  await until(() => watcher.counters.pinned === 2);
  expect(listPinned(watcher)).toEqual(['order-1', 'order-2']);
  expect(watcher.counters.dropped.rate).toBe(1);
}, 60_000);

test('a pin keeps the later use of its id from retention, without another match', async () => {
  const folder = newFolder();
  const clock = { nowNs: START };
  const origin = { node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs };
  const writer = openWriter({ path: recordingPath(folder), ...origin, retention: { ageNs: 1000n * S, bytes: 1e9 } });
  endings.push(() => writer.close());
  appendRows(writer, [{ at: START }]);
  const state = openState();
  const watcher = begin(folder, state, { quietMs: 100 });
  await until(() => state.hasPosition());
  const [{ recordingId }] = watcher.recordings.extents() as [Extent];
  appendRows(writer, [slow('order-1')]);
  await until(() => state.findIncident(recordingId, 'order-1')?.bundle === 'written' && watcher.counters.pinned === 1);
  state.leave(state.findIncident(recordingId, 'order-1')!.incidentId);
  const others = Array.from({ length: 40_000 }, (_, i) => ({ at: LATER + BigInt(i) * S, transaction: `tx-${i}` }));
  appendRows(writer, [slow('order-1', LATER), ...others]);
  clock.nowNs = LATER + 100_000n * S;
  appendRows(writer, [slow('order-2', LATER + 100_000n * S)]);
  await until(() => watcher.counters.pinned === 2, 60_000);
  const [{ end }] = watcher.recordings.extents() as [Extent];
  expect(watcher.recordings.countRemoved(recordingId, 0, end).count).toBeGreaterThan(0);
  const kept = [...watcher.recordings.scan({ filter: { transactionId: 'order-1' }, order: 'asc', limit: 10 })];
  expect(kept.reduce((sum, { block }) => sum + block.rowCount, 0)).toBe(2);
  expect(watcher.counters.matches.get('long')).toBe(2);
}, 120_000);
