/** Tests sessions across the end of a daemon: each daemon here is its sessions on a real file, with simulated time. */
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createRequest } from '../../../../daemon/contract/replay_requests.ts';
import { openState } from '../../../../daemon/replay/persistence/state_thread.ts';
import { createPlanner, type Planner } from '../../../../daemon/replay/plan/planner.ts';
import type { Session } from '../../../../daemon/replay/session/session.ts';
import { createSessions, type SessionLimits, type Sessions } from '../../../../daemon/replay/session/sessions.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, recordingPath, START } from '../../recorded.ts';
import { MS, newSink } from '../fixture.ts';
import { framesOf } from '../frames.ts';
import { createSimulatedClock } from '../simulated_clock.ts';

const TX = 'tx-1';
const COUNT = 100;
const rowsOf = (count = COUNT): Row[] =>
  Array.from({ length: count }, (_, n) => ({ at: START + BigInt(n) * MS, transaction: TX, tid: n % 3 }));

interface Life {
  sessions: Sessions;
  clock: ReturnType<typeof createSimulatedClock>;
  /** Transactions whose plans were opened for a session. */
  openedPlans: string[];
  setWallTime(ns: bigint): void;
  end(): Promise<void>;
}

const living = new Set<Life>();
afterEach(async () => {
  for (const life of living) await life.end();
});

/** Runs a daemon until `end`. */
async function live(folder: string, limits: Partial<SessionLimits> = {}): Promise<Life> {
  const state = await openState(join(folder, 'sessions.sqlite'));
  const store = openRecordingStore(folder);
  const planner = createPlanner(store);
  const openedPlans: string[] = [];
  const watched: Planner = {
    ...planner,
    open(request, onOutline) {
      openedPlans.push(request.transactionId);
      return planner.open(request, onOutline);
    },
  };
  const clock = createSimulatedClock();
  const { now: steadyNow, timers } = clock;
  let wallNs = START;
  const sessions = createSessions({ planner: watched, now: () => wallNs, steadyNow, timers, limits, state });
  const life: Life = {
    sessions,
    clock,
    openedPlans,
    setWallTime(ns) {
      wallNs = ns;
    },
    async end() {
      living.delete(life);
      await sessions.close();
      store.close();
    },
  };
  living.add(life);
  return life;
}

const create = (sessions: Sessions, more: object = {}) =>
  sessions.create(createRequest.parse({ transaction_id: TX, ...more }));
const idOf = (session: Pick<Session, 'view'>) => session.view().session_id;

function watch(session: Session, lastId: number | null = null) {
  const viewer = newSink();
  session.stream.join(viewer.sink, lastId);
  return { viewer, frames: () => framesOf(viewer.text) };
}

/** The part of a view that survives a restart; lateness is counted again from zero, and the stream has other ids. */
function lasting(view: ReturnType<Session['view']>) {
  const { lateness: _lateness, starvations: _starvations, last_event_id: _id, ...rest } = view;
  return rest;
}

test('what was changed on the way holds for the same events after a restart', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const session = await create(first.sessions, { extra_latency_ns: 2_000_000, only: { service: ['none'] } });
  await session.play();
  await first.clock.pass(10n * MS + MS / 3n);
  session.pause();
  await session.change({ only: {}, maxGapNs: 0, timeoutNs: 50n * MS });
  while (session.view().replay_duration_ns === null) await new Promise((resolve) => setImmediate(resolve));
  const starts = async (from: Session) => {
    const listed: number[] = [];
    for await (const page of from.timeline(0, COUNT))
      for (const json of page) listed.push(JSON.parse(json).replay_offset_ns);
    return listed;
  };
  const [before, laidOut] = [lasting(session.view()), await starts(session)];
  await first.end();
  const second = await live(folder);
  const again = await second.sessions.open(before.session_id);
  expect(lasting(again.view())).toEqual({ ...before, updated_at: expect.any(String) });
  expect(await starts(again)).toEqual(laidOut);
});

test('each session is restored as it was, a playing one paused, and listing them opens none', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const settings = {
    speed_factor: 0.5,
    extra_latency_ns: 3000,
    timeout_ns: 9_000_000,
    max_gap_ns: 700_000,
    only: { service: ['shop'], event_type: ['sys_write'] },
    loop: true,
  };
  const ready = await create(first.sessions, settings);
  const playing = await create(first.sessions);
  const paused = await create(first.sessions);
  const finished = await create(first.sessions);
  const stopped = await create(first.sessions);
  const removed = await create(first.sessions);
  for (const session of [playing, paused, stopped]) await session.play();
  await first.clock.pass(10n * MS + MS / 3n);
  paused.pause();
  stopped.stop();
  await finished.seek({ event_index: 1000n });
  await first.sessions.remove(idOf(removed));
  const all = [ready, playing, paused, finished, stopped];
  await first.end();
  const before = all.map((session) => lasting(session.view()));

  const second = await live(folder);
  const after = second.sessions.list().map((session) => lasting(session.view()));
  expect(after).toEqual(before.map((view) => (view.state === 'playing' ? { ...view, state: 'paused' } : view)));
  expect(after.map(({ state }) => state)).toEqual(['ready', 'paused', 'paused', 'finished', 'stopped']);
  expect(second.openedPlans).toEqual([]);
  for (const view of after) expect(lasting((await second.sessions.open(view.session_id)).view())).toEqual(view);
  expect(second.openedPlans).toHaveLength(5);
});

test('a restored session continues at its position: every event comes once, in its place', async () => {
  const folder = recorded(rowsOf());
  const indexes: number[] = [];
  let id: string | undefined;
  for (let lives = 0; lives < 5; lives++) {
    const { sessions, clock, end } = await live(folder);
    const session = id === undefined ? await create(sessions) : await sessions.open(id);
    id = idOf(session);
    const { frames } = watch(session);
    await session.play();
    await clock.pass(18n * MS + (MS * BigInt(lives)) / 7n);
    if (lives === 3) await session.step(5).catch(() => session.pause());
    await end();
    indexes.push(...frames().flatMap(({ event, data }) => (event === 'event' ? [data.replay.index] : [])));
  }
  expect(indexes).toEqual(indexes.map((_, index) => index));
  expect(indexes.length).toBeGreaterThan(60);
});

test('a latency that was changed during playback applies from the same event', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const session = await create(first.sessions, { extra_latency_ns: 100 });
  await session.step(10);
  await session.change({ extraLatencyNs: 2_000_000 });
  await session.step(20);
  await session.change({ extraLatencyNs: 500_000 });
  await first.clock.pass(MS);
  const scheduled = async (one: Session) => (await one.timeline(0, 1000).next()).value;
  const [timeline, view] = [await scheduled(session), lasting(session.view())];
  await first.end();
  const second = await live(folder);
  const again = await second.sessions.open(view.session_id);
  expect(lasting(again.view())).toEqual(view);
  expect(await scheduled(again)).toEqual(timeline);
  await again.seek({ event_index: 30n });
  expect(await scheduled(again)).not.toEqual(timeline);
});

test('after a kill at any moment a session goes back by at most a second, and never ahead', async () => {
  const folder = recorded(rowsOf(5000));
  const { sessions, clock } = await live(folder);
  const session = await create(sessions);
  await session.play();
  for (let seconds = 0; seconds < 3; seconds++) {
    await clock.pass(910n * MS);
    await sessions.save();
    const { event_index: reached } = session.view();
    const killed = newFolder();
    cpSync(folder, killed, { recursive: true });
    const after = await live(killed);
    const [view] = after.sessions.list().map((listed) => listed.view());
    expect(view!.state).toBe('paused');
    expect(view!.event_index).toBeLessThanOrEqual(reached);
    expect(view!.event_index).toBeGreaterThanOrEqual(reached - 1001);
    await after.end();
  }
});

test('an id of an earlier process is answered with a gap of unknown size and the state, and ids continue above it', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const session = await create(first.sessions);
  const { frames } = watch(session);
  await session.step(7);
  const told = Number(frames().at(-1)!.id);
  await first.end();

  const second = await live(folder);
  const again = await second.sessions.open(idOf(session));
  expect([told, told - 3, 0].map((id) => again.stream.isKnownId(id))).toEqual([true, true, true]);
  const back = watch(again, told - 3);
  const [gap, state] = back.frames();
  expect(gap).toMatchObject({ event: 'gap', data: { missed: null, first_id: told - 2 } });
  expect(state).toMatchObject({ event: 'state', data: { state: 'paused', event_index: 7 } });
  const base = Number(gap!.id);
  expect(base).toBeGreaterThan(told);
  await again.step(2);
  expect(
    back
      .frames()
      .slice(2)
      .map(({ id }) => Number(id) - base),
  ).toEqual([1, 2, 3]);
  // Ids of this daemon's life resume as usual.
  expect(watch(again, base + 2).frames()).toMatchObject([{ event: 'state', id: `${base + 3}` }]);
  expect(
    watch(again, base)
      .frames()
      .map(({ event }) => event),
  ).toEqual(['event', 'event', 'state']);
  expect(again.stream.isKnownId(base + 4)).toBe(false);
  await second.end();

  const third = await live(folder);
  const { stream } = await third.sessions.open(idOf(session));
  expect(stream.isKnownId(base + 3)).toBe(true);
  expect(stream.isNewest(base + 3)).toBe(false);
});

test('the stream of a finished session also reports the end to clients that were connected before', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const session = await create(first.sessions);
  session.stop();
  await first.end();
  const second = await live(folder);
  const { viewer, frames } = watch(await second.sessions.open(idOf(session)), 1);
  expect(frames().map(({ event }) => event)).toEqual(['gap', 'state', 'end']);
  expect(viewer.ended).toBe(true);
});

test('a transaction that is no longer recorded: marked in the list, refused for commands, and deleted as usual', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const id = idOf(await create(first.sessions));
  await first.end();
  rmSync(recordingPath(folder));
  const writer = newWriter(folder);
  appendRows(writer, [{ at: START, transaction: 'other' }]);
  writer.close();

  const second = await live(folder);
  await second.clock.pass(MS);
  const failure = 'no event of transaction tx-1 is recorded any more';
  expect(second.sessions.list().map((session) => session.view())).toMatchObject([{ state: 'ready', failure }]);
  const refused = { code: 'transaction_not_found', message: failure };
  await expect(second.sessions.open(id)).rejects.toMatchObject(refused);
  await expect(second.sessions.open(id)).rejects.toMatchObject(refused);
  await second.sessions.remove(id);
  await second.end();
  expect((await live(folder)).sessions.list()).toEqual([]);
});

test('a recording that is temporarily unreadable costs no session', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const session = await create(first.sessions);
  await session.step(3);
  await first.end();
  const elsewhere = `${recordingPath(folder)}.away`;
  renameSync(recordingPath(folder), elsewhere);
  const second = await live(folder);
  await second.clock.pass(MS);
  expect(second.sessions.list()[0]!.view().failure).toBeNull();
  await expect(second.sessions.open(idOf(session))).rejects.toMatchObject({ code: 'recording_missing' });
  renameSync(elsewhere, recordingPath(folder));
  expect((await second.sessions.open(idOf(session))).view()).toMatchObject({ event_index: 3, failure: null });
});

test('after events were added or removed, the position is the same moment of the transaction', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(writer, rowsOf(50));
  const first = await live(folder);
  const [session, finished] = [await create(first.sessions), await create(first.sessions)];
  await session.seek({ event_index: 20n });
  await finished.seek({ event_index: 50n });
  await first.end();
  // Slow events, which are recorded at their end.
  appendRows(writer, [
    { at: START - 5n * MS, transaction: TX },
    { at: START + 3n * MS + 1n, transaction: TX },
  ]);
  writer.close();
  const second = await live(folder);
  const moment = { event_index: 22, event_count: 52, position_ns: 25n * MS };
  expect((await second.sessions.open(idOf(session))).view()).toMatchObject(moment);
  expect((await second.sessions.open(idOf(finished))).view()).toMatchObject({ state: 'finished', event_index: 52 });
});

test('restored sessions count towards the limit on concurrent playback', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  const looping = { loop: true, speed_factor: 100 };
  const ids = [idOf(await create(first.sessions, looping)), idOf(await create(first.sessions, looping))];
  await first.end();
  const { sessions } = await live(folder, { replayRateMax: 300_000 });
  await (await sessions.open(ids[0]!)).play();
  await (await create(sessions)).play();
  await expect((await sessions.open(ids[1]!)).play()).rejects.toMatchObject({ code: 'replay_capacity' });
});

test('time without a daemon counts as idle, and a restored session fills the limit without exceeding it', async () => {
  const folder = recorded(rowsOf());
  const first = await live(folder);
  for (let n = 0; n < 3; n++) await create(first.sessions);
  await first.end();
  const second = await live(folder, { sessionsMax: 2, idleMs: 3_600_000 });
  expect(second.sessions.list()).toHaveLength(3);
  await expect(create(second.sessions)).rejects.toMatchObject({ code: 'session_limit' });
  await second.end();

  const third = await live(folder, { idleMs: 3_600_000 });
  await third.end();
  const { sessions, clock, setWallTime } = await live(folder, { idleMs: 3_600_000 });
  setWallTime(START);
  await clock.pass(3_599_000n * MS);
  expect(sessions.list()).toHaveLength(3);
  sessions.get(sessions.list()[1]!.view().session_id);
  await clock.pass(61_000n * MS);
  expect(sessions.list()).toHaveLength(1);
  await sessions.save();
});

test('concurrent commands are stored by few writes', async () => {
  const folder = recorded(rowsOf());
  const { sessions } = await live(folder);
  const made = await Promise.all(Array.from({ length: 50 }, () => create(sessions)));
  await Promise.all(
    made.map(async (session, n) => {
      await session.seek({ event_index: BigInt(n) });
      await sessions.save();
    }),
  );
  expect(sessions.keeping).toEqual({ kept: true, failure: null });
});
