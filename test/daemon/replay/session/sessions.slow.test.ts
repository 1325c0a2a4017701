/** All sessions of a daemon on a real recording and a simulated clock: limits, ends, and what is read of the recording. */
import { setTimeout as sleep } from 'node:timers/promises';

import { createRequest } from '../../../../daemon/contract/replay_requests.ts';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import type { Session } from '../../../../daemon/replay/session/session.ts';
import {
  createSessions,
  DEFAULT_LIMITS,
  type SessionLimits,
  type Sessions,
} from '../../../../daemon/replay/session/sessions.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, START } from '../../recorded.ts';
import { MS, newSink } from '../fixture.ts';
import { framesOf } from '../frames.ts';
import { createSimulatedClock } from '../simulated_clock.ts';

const TX = 'tx-1';
const MINUTE_NS = 60_000n * MS;

const rowsOf = (count: number, gapNs = 1000n): Row[] =>
  Array.from({ length: count }, (_, n) => ({ at: START + BigInt(n) * gapNs, transaction: TX, tid: n % 5 }));

let opened: { close(): void }[] = [];
afterEach(() => {
  for (const { close } of opened.toReversed()) close();
  opened = [];
});

function opening<Closable extends { close(): void }>(closable: Closable): Closable {
  opened.push(closable);
  return closable;
}

function newSessions(store: Recordings, limits: Partial<SessionLimits> = {}) {
  const clock = createSimulatedClock();
  const { now: steadyNow, timers } = clock;
  return {
    clock,
    sessions: opening(createSessions({ planner: createPlanner(store), now: () => START, steadyNow, timers, limits })),
  };
}

const create = (sessions: Sessions, more: object = {}) =>
  sessions.create(createRequest.parse({ transaction_id: TX, ...more }));

test('a session beyond the limit is refused, even with concurrent requests, and deleting one makes room', async () => {
  const { sessions } = newSessions(opening(openRecordingStore(recorded(rowsOf(10)))), { sessionsMax: 3 });
  const asked = await Promise.allSettled(Array.from({ length: 5 }, () => create(sessions)));
  expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected']);
  expect((asked[3] as PromiseRejectedResult).reason.code).toBe('session_limit');
  await sessions.remove(sessions.list()[1]!.view().session_id);
  await create(sessions);
  expect(sessions.list()).toHaveLength(3);
});

test('a failed creation releases its room', async () => {
  const { sessions } = newSessions(opening(openRecordingStore(recorded(rowsOf(10)))), { sessionsMax: 1 });
  await expect(create(sessions, { transaction_id: 'unknown' })).rejects.toMatchObject({
    code: 'transaction_not_found',
  });
  await create(sessions);
});

test('sessions that exceed the total playback rate are refused, and stay unchanged', async () => {
  // 1001 events in a second.
  const store = opening(openRecordingStore(recorded(rowsOf(1001, MS))));
  const { sessions } = newSessions(store, { replayRateMax: 250_000 });
  const looping = { speed_factor: 100, loop: true };
  const made = await Promise.all(
    [looping, looping, looping, { speed_factor: 1000 }].map((more) => create(sessions, more)),
  );
  const [first, second, third, once] = made as [Session, Session, Session, Session];
  const results = await Promise.allSettled([first, second, third].map((session) => session.play()));
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  const { reason } = results[2] as PromiseRejectedResult;
  expect(reason).toMatchObject({ code: 'replay_capacity' });
  expect(reason.message).toMatch(/110,100 events a second, and others play 220,200; all together may play 250,000/);
  expect(third.state).toBe('ready');
  // A session without a loop ends after a thousand events, at any speed.
  await once.play();
  await expect(first.change({ speedFactor: 1000 })).rejects.toMatchObject({ code: 'replay_capacity' });
  expect(first.view()).toMatchObject({ state: 'playing', speed_factor: 100 });
  await first.change({ speedFactor: 1 });
  await third.play();
  first.pause();
  second.pause();
  once.stop();
  // A session that plays alone may play at any speed.
  await third.change({ speedFactor: 1000 });
  expect(third.view()).toMatchObject({ state: 'playing', speed_factor: 1000 });
});

test('a lower latency makes a loop faster, and is refused like a higher speed', async () => {
  // 1001 events in one second, or in 1001 seconds.
  const store = opening(openRecordingStore(recorded(rowsOf(1001, MS).map((row) => ({ ...row, tid: 1 })))));
  const { sessions } = newSessions(store, { replayRateMax: 150_000 });
  const fast = await create(sessions, { speed_factor: 100, loop: true });
  const delayed = await create(sessions, { speed_factor: 100, loop: true, extra_latency_ns: 1_000_000_000n });
  await Promise.all([fast.play(), delayed.play()]);
  await expect(delayed.change({ extraLatencyNs: 0 })).rejects.toMatchObject({ code: 'replay_capacity' });
  expect(delayed.view()).toMatchObject({ state: 'playing', extra_latency_ns: 1_000_000_000n });
  await delayed.change({ extraLatencyNs: 0, speedFactor: 1 });
  // Its next round has no latency: it would take a second, not a thousand.
  await expect(delayed.change({ speedFactor: 100 })).rejects.toMatchObject({ code: 'replay_capacity' });
});

test('concurrent changes are counted together', async () => {
  const store = opening(openRecordingStore(recorded(rowsOf(1001, MS))));
  const { sessions } = newSessions(store, { replayRateMax: 150_000 });
  const both = [await create(sessions, { loop: true }), await create(sessions, { loop: true })];
  await Promise.all(both.map((session) => session.play()));
  const changes = both.map((session) => session.change({ speedFactor: 100, extraLatencyNs: 1 }));
  const results = await Promise.allSettled(changes);
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('a round costs more than its events', async () => {
  const store = opening(openRecordingStore(recorded(rowsOf(2, MS))));
  const { sessions } = newSessions(store, { replayRateMax: 200_000 });
  const both = [await create(sessions, { loop: true }), await create(sessions, { loop: true })];
  // A thousand rounds a second each, of two events.
  await both[0]!.play();
  await expect(both[1]!.play()).rejects.toMatchObject({ code: 'replay_capacity' });
});

test('a transaction that has not been measured is measured before it is refused', async () => {
  // It takes a second as recorded, and 70 seconds as played.
  const store = opening(openRecordingStore(recorded(rowsOf(70_000, 14_000n).map((row) => ({ ...row, tid: 1 })))));
  const { sessions } = newSessions(store, { replayRateMax: 50_000 });
  const delayed = { loop: true, extra_latency_ns: 1_000_000 };
  const first = await create(sessions, delayed);
  while (first.view().replay_duration_ns === null) await sleep(5);
  const second = await create(sessions, delayed);
  expect(second.view().replay_duration_ns).toBeNull();
  await first.play();
  await second.play();
  expect(second.state).toBe('playing');
}, 20_000);

test('an idle session is ended, and one that is playing or watched is not', async () => {
  expect(DEFAULT_LIMITS).toEqual({ sessionsMax: 1000, replayRateMax: undefined, idleMs: 24 * 3_600_000 });
  const store = opening(openRecordingStore(recorded(rowsOf(2, 80n * MINUTE_NS))));
  const { sessions, clock } = newSessions(store, { idleMs: 24 * 60_000 });
  const [idle, playing, watched] = [await create(sessions), await create(sessions), await create(sessions)];
  await playing.play();
  watched.stream.join(newSink().sink, null);
  await clock.pass(23n * MINUTE_NS);
  sessions.get(idle.view().session_id);
  await clock.pass(2n * MINUTE_NS);
  expect(sessions.list()).toHaveLength(3);
  await clock.pass(23n * MINUTE_NS);
  expect(sessions.list()).toEqual([playing, watched]);
  expect(() => sessions.get(idle.view().session_id)).toThrow(expect.objectContaining({ code: 'session_not_found' }));
});

test('heartbeats come every 15 s', async () => {
  const { sessions, clock } = newSessions(opening(openRecordingStore(recorded(rowsOf(2)))));
  const viewer = newSink();
  (await create(sessions)).stream.join(viewer.sink, null);
  await clock.pass(61_000n * MS);
  expect(viewer.text.match(/: hb\n\n/g)).toHaveLength(4);
});

test('closing ends the streams of all sessions, and nothing plays afterwards', async () => {
  const { sessions, clock } = newSessions(opening(openRecordingStore(recorded(rowsOf(10, MS)))));
  const viewers = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const session = await create(sessions);
      const viewer = newSink();
      session.stream.join(viewer.sink, null);
      await session.play();
      return viewer;
    }),
  );
  await clock.pass(2n * MS);
  await sessions.close();
  await clock.pass(100n * MS);
  for (const viewer of viewers) {
    const frames = framesOf(viewer.text);
    expect(frames.at(-1)).toMatchObject({ event: 'end', data: { reason: 'shutdown' } });
    expect(frames.filter(({ event }) => event === 'event').length).toBeLessThan(5);
    expect(viewer.ended).toBe(true);
  }
});

test('200 concurrent sessions each play everything, in order and never early', async () => {
  const { sessions, clock } = newSessions(opening(openRecordingStore(recorded(rowsOf(97, MS / 3n)))));
  const viewers = [];
  for (let n = 0; n < 200; n++) {
    const session = await create(sessions, { speed_factor: 1 + n / 100 });
    const viewer = newSink();
    session.stream.join(viewer.sink, null);
    viewers.push(viewer);
    await session.play();
  }
  await clock.pass(100n * MS);
  for (const viewer of viewers) {
    const events = framesOf(viewer.text).filter(({ event }) => event === 'event');
    expect(events.map(({ data }) => data.replay.index)).toEqual(events.map((_, index) => index));
    expect(events).toHaveLength(97);
    expect(events.every(({ data }) => data.replay.lateness_ns >= 0)).toBe(true);
  }
});

test('a session is a snapshot: later events, even in between, do not join it', async () => {
  const folder = newFolder();
  const writer = opening(newWriter(folder));
  appendRows(writer, rowsOf(600, 1000n));
  const { sessions } = newSessions(opening(openRecordingStore(folder)));
  const before = await create(sessions);
  // Slow events are recorded at their end, long after their start.
  appendRows(
    writer,
    Array.from({ length: 700 }, (_, n) => ({ at: START + BigInt(n) * 300n + 7n, transaction: TX })),
  );
  const played = (await before.step(2000)).map((json) => JSON.parse(json));
  expect(played.map(({ timestamp_ns }) => BigInt(timestamp_ns) - START)).toHaveLength(600);
  expect(played.map(({ replay }) => replay.offset_ns)).toEqual(Array.from({ length: 600 }, (_, n) => n * 1000));
  expect((await create(sessions)).view().event_count).toBe(1300);
});
