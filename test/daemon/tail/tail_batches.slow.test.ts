/**
 * Tests a tail's batches without a network: whatever is written when, and wherever a client is cut off, it gets each
 * event once; and events that retention removed before they were read are reported.
 */
import { join } from 'node:path';
import fc from 'fast-check';
import { openWriter } from '../../../agent/recording/write/writer.ts';
import { formatEventId } from '../../../daemon/base/event_id.ts';
import { createEmbeddedStore } from '../../../daemon/store/embedded/embedded_store.ts';
import { decodePosition, encodePosition } from '../../../daemon/store/embedded/follow_position.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { FollowPosition, Store } from '../../../daemon/store/store.ts';
import { type Frames, followFrames } from '../../../daemon/tail/tails.ts';
import { blockOf } from '../../agent/recording/fixture.ts';
import { times } from '../../repeats.ts';
import { appendRows, newFolder, newWriter, type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Frame, framesOf } from '../replay/frames.ts';

const signal = new AbortController().signal;
const FUTURE = START * 2n;

/** Reads until no more events are due. */
async function read(store: Store, position: FollowPosition, horizonNs: bigint, filter = {}) {
  let batch: Frames | undefined;
  let text = '';
  do {
    const request = { filter, position: batch?.position ?? position, horizonNs, nowNs: FUTURE };
    batch = (await followFrames(store, request, signal))!;
    text += batch.text;
  } while (!batch.complete);
  return { frames: framesOf(text), position: batch.position };
}

const idsOf = (frames: readonly Frame[]): string[] =>
  frames.flatMap(({ event, data }) => (event === 'event' ? [data.event_id] : []));

test('decoding reverses encoding for positions', () => {
  const id = fc.uint8Array({ minLength: 8, maxLength: 8 }).map((bytes) => Buffer.from(bytes).toString('hex'));
  const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  const place = fc.record({ number: fc.maxSafeNat(), lossId: fc.nat() });
  const positions = fc.record({
    fromNs: u64,
    key: fc.record({ timestamp_ns: u64, event_id: fc.tuple(id, u64).map(([a, b]) => formatEventId(a, b)) }),
    places: fc.array(fc.tuple(id, place), { maxLength: 4 }).map((all) => new Map(all)),
  });
  fc.assert(
    fc.property(positions, fc.nat(), ({ fromNs, key, places }, flip) => {
      const given = [...places].map(([name, one]) => [name, { ...one, given: one.number }] as const);
      const text = encodePosition({ fromNs, key, places: new Map(given) });
      const decoded = decodePosition(text)!;
      expect([decoded.fromNs, decoded.key]).toEqual([fromNs, key]);
      expect([...decoded.places].map(([name, { number, lossId }]) => [name, { number, lossId }])).toEqual([...places]);
      const bytes = Buffer.from(text, 'base64url');
      bytes[flip % bytes.length]! ^= 1 << (flip % 8);
      expect(decodePosition(bytes.toString('base64url'))).toBeUndefined();
    }),
  );
});

/** Each step is a flush of events with these starts, or a read with the clock at `horizon`. */
const steps = fc.array(
  fc.oneof(
    fc.record({ starts: fc.array(fc.nat(400), { minLength: 1, maxLength: 12 }), second: fc.boolean() }),
    fc.record({ horizon: fc.nat(400) }),
  ),
  { minLength: 1, maxLength: 12 },
);

test('each event is sent once, wherever a client was disconnected', async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.infiniteStream(fc.nat(20)), fc.boolean(), async (planned, cuts, fromPast) => {
      const [one, two] = [newFolder(), newFolder()];
      const writers = [newWriter(one), newWriter(two, 'node-2')];
      const open = () => createEmbeddedStore(openRecordingStore(one, [recordingPath(two)]));
      let store = open();
      appendRows(writers[0]!, [{ at: START - 7n }]);
      let position = await store.startFollowing({}, START, fromPast ? START - 9n : undefined);
      let written = fromPast ? 1 : 0;
      const given: Frame[] = [];
      for (const step of [...planned, { horizon: 500 }]) {
        if ('starts' in step) {
          const rows = step.starts.map((start): Row => ({ at: START + 10n + BigInt(start) }));
          appendRows(writers[step.second ? 1 : 0]!, rows);
          written += rows.length;
          continue;
        }
        for (let isCut = true; isCut; ) {
          const all = await read(store, position, START + BigInt(step.horizon));
          const cut = cuts.next().value!;
          isCut = cut < all.frames.length;
          given.push(...all.frames.slice(0, isCut ? cut : undefined));
          position = isCut && given.length > 0 && cut > 0 ? store.parseFollowPosition(given.at(-1)!.id!)! : position;
          if (isCut) {
            await store.close();
            store = open();
          } else position = all.position;
        }
      }
      expect(idsOf(given)).toHaveLength(written);
      expect(new Set(idsOf(given)).size).toBe(written);
      const inOrder = given.filter(({ data }) => !data.late).map(({ data }) => BigInt(data.timestamp_ns));
      expect(inOrder).toEqual(inOrder.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
      await store.close();
      for (const writer of writers) writer.close();
    }),
    { numRuns: times(15) },
  );
});

test('a tail that is far behind reads in short batches', async () => {
  const folder = recordedOn(
    'node-1',
    Array.from({ length: 10_007 }, (_, i) => ({ at: START + BigInt(i) })),
  );
  const store = createEmbeddedStore(openRecordingStore(folder));
  let batch: Frames = { text: '', position: await store.startFollowing({}, START, START), complete: false };
  let events = 0;
  let longest = 0;
  while (!batch.complete) {
    const request = { filter: {}, position: batch.position, horizonNs: FUTURE, nowNs: FUTURE };
    batch = (await followFrames(store, request, signal))!;
    events += framesOf(batch.text).length;
    longest = Math.max(longest, batch.text.length);
  }
  expect(events).toBe(10_007);
  expect(longest).toBeLessThan(1 << 20);
  await store.close();
});

const BATCH_ROWS = 4096;
const MINUTE_NS = 60_000_000_000n;

/** Makes a writer whose retention keeps five minutes. */
function newForgettingWriter() {
  const folder = newFolder();
  const clock = { nowNs: START };
  const origin = { node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs };
  const path = join(folder, 'recording.kreplay');
  const writer = openWriter({ path, ...origin, retention: { ageNs: 5n * MINUTE_NS } });
  const writeMinute = () => {
    const rows = Array.from({ length: BATCH_ROWS }, (_, i) => ({ timestamp_ns: clock.nowNs + BigInt(i) }));
    writer.append(blockOf(rows));
    clock.nowNs += MINUTE_NS;
    writer.flush();
  };
  return { clock, writer, writeMinute, store: createEmbeddedStore(openRecordingStore(folder)) };
}

const lostIn = (frames: readonly Frame[]): number =>
  frames.reduce((sum, { event, data }) => sum + (event === 'lost' ? data.lost : 0), 0);

test('a client that always lags behind retention receives the number of all missed events', async () => {
  const { clock, writer, writeMinute, store } = newForgettingWriter();
  let position = await store.startFollowing({}, START - 1n, undefined);
  const frames: Frame[] = [];
  for (let minute = 0; minute < 40; minute++) {
    writeMinute();
    const batch = (await followFrames(store, { filter: {}, position, horizonNs: clock.nowNs, nowNs: FUTURE }, signal))!;
    ({ position } = batch);
    frames.push(...framesOf(batch.text));
  }
  frames.push(...(await read(store, position, clock.nowNs)).frames);
  expect(frames.filter(({ event }) => event === 'lost').length).toBeGreaterThan(5);
  expect(idsOf(frames).length + lostIn(frames)).toBe(40 * BATCH_ROWS);
  writer.close();
  await store.close();
});

test('events that were removed while they waited for their turn are reported', async () => {
  const { clock, writer, writeMinute, store } = newForgettingWriter();
  const start = await store.startFollowing({}, START - 1n, undefined);
  writeMinute();
  const first = await read(store, start, START + 99n);
  expect(idsOf(first.frames)).toHaveLength(100);
  for (let minute = 0; minute < 20; minute++) writeMinute();
  const { frames } = await read(store, first.position, clock.nowNs);
  expect(lostIn(frames)).toBeGreaterThan(BATCH_ROWS);
  expect(100 + idsOf(frames).length + lostIn(frames)).toBe(21 * BATCH_ROWS);
  writer.close();
  await store.close();
});

test('events that retention removed before they were read are reported, and the count is exact', async () => {
  const { clock, writer, writeMinute, store } = newForgettingWriter();
  const start = await store.startFollowing({}, START - 1n, undefined);
  writeMinute();
  const { frames, position } = await read(store, start, clock.nowNs);
  expect(idsOf(frames)).toHaveLength(BATCH_ROWS);
  for (let minute = 0; minute < 20; minute++) writeMinute();
  const rest = await read(store, position, clock.nowNs);
  const lost = rest.frames.filter(({ event }) => event === 'lost');
  expect(lost.map(({ data }) => data.cause)).toEqual(['retention']);
  expect(lost[0]!.data.lost).toBeGreaterThan(0);
  expect(idsOf(rest.frames)).toHaveLength(20 * BATCH_ROWS - lost[0]!.data.lost);
  // A client that comes back with an old id gets the same report.
  const again = await read(store, store.parseFollowPosition(frames.at(-1)!.id!)!, clock.nowNs);
  const told = (all: readonly Frame[]) => all.map(({ data }) => [data.event_id, data.lost, data.to]);
  expect(told(again.frames)).toEqual(told(rest.frames));
  writer.close();
  await store.close();
});

test('a recording that replaces another is followed from its first event', async () => {
  const folder = recordedOn('n', [{ at: START }]);
  const other = recordedOn('n', [{ at: START + 1n }, { at: START + 2n }]);
  const before = createEmbeddedStore(openRecordingStore(folder));
  const position = await before.startFollowing({}, START + 1n, undefined);
  await before.close();
  const after = createEmbeddedStore(openRecordingStore(other));
  const { frames } = await read(after, position, START + 10n);
  expect(frames.map(({ data }) => [BigInt(data.timestamp_ns) - START, data.late])).toEqual([
    [1n, true],
    [2n, undefined],
  ]);
  await after.close();
});
