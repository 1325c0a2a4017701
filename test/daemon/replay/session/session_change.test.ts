/** Tests changes while a session plays: its speed, latency and rounds. Each event comes once, at its own time. */
import fc from 'fast-check';
import { times } from '../../../repeats.ts';
import { MS, newSession, newSink, type PlannedEvent, TEN_EVENTS } from '../fixture.ts';
import { type Frame, framesOf } from '../frames.ts';

type Opened = Awaited<ReturnType<typeof newSession>>;

function watch({ session }: Opened) {
  const viewer = newSink();
  session.stream.join(viewer.sink, null);
  const frames = (): Frame[] => framesOf(viewer.text);
  return { frames, events: () => frames().flatMap(({ event, data }) => (event === 'event' ? [data] : [])) };
}

/** A hundred events of three threads, a millisecond apart. */
const HUNDRED: readonly PlannedEvent[] = Array.from({ length: 100 }, (_, index) => ({
  startNs: BigInt(index) * MS,
  durationNs: MS / 2n,
  thread: index % 3,
}));

test('a new speed applies from the current position, which does not jump', async () => {
  const opened = await newSession(HUNDRED);
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  await clock.pass(10n * MS + MS / 2n);
  const before = session.view().position_ns;
  const changedNs = clock.now();
  await session.change({ speedFactor: 4 });
  expect(session.view()).toMatchObject({ speed_factor: 4, position_ns: before, state: 'playing' });
  await clock.pass(40n * MS);
  expect(session.state).toBe('finished');
  expect(events().map(({ replay }) => replay.index)).toEqual(HUNDRED.map((_, index) => index));
  for (const { replay } of events().slice(11))
    expect(BigInt(replay.due_ns) - changedNs).toBe((BigInt(replay.offset_ns) - before + 3n) / 4n);
});

test('a change of speed keeps the position and scales the remaining wait', async () => {
  const opened = await newSession(TEN_EVENTS);
  const { session, clock } = opened;
  const { events, frames } = watch(opened);
  const indexes = () => events().map(({ replay }) => replay.index);
  const states = () => frames().flatMap(({ event, data }) => (event === 'state' ? data.state : []));
  await session.play();
  await clock.pass(MS + MS / 4n);
  const { position_ns } = session.view();
  const changedNs = clock.now();
  await session.change({ speedFactor: 0.5 });
  expect(session.view()).toMatchObject({ state: 'playing', speed_factor: 0.5, position_ns });
  expect(indexes()).toEqual([0, 1]);
  await clock.pass(2n * MS);
  expect(indexes()).toEqual([0, 1, 2]);
  expect(BigInt(events()[2].replay.due_ns)).toBe(changedNs + 2n * (2n * MS - position_ns));
  expect(states()).toEqual(['ready', 'playing', 'playing']);
});

test('the duration is reported as soon as it is known', async () => {
  const many = Array.from({ length: 5000 }, (_, index) => ({ startNs: BigInt(index) * MS }));
  const opened = await newSession(many);
  const { session } = opened;
  const { frames } = watch(opened);
  await session.change({ extraLatencyNs: 1_000_000 });
  expect(session.view().replay_duration_ns).toBeNull();
  while (session.view().replay_duration_ns === null) await new Promise((resolve) => setImmediate(resolve));
  const durations = frames().map(({ event, data }) => [event, data.replay_duration_ns]);
  const [known, changed] = [4999 * 1e6, 9999 * 1e6];
  expect(durations).toEqual([
    ['state', known],
    ['state', null],
    ['state', changed],
  ]);
});

test('after the end of a stopped session nothing is sent, so that a reconnecting client is released', async () => {
  const many = Array.from({ length: 5000 }, (_, index) => ({ startNs: BigInt(index) * MS }));
  const { session } = await newSession(many);
  await session.change({ extraLatencyNs: 1_000_000 });
  session.stop();
  const { lastId } = session.stream;
  while (session.view().replay_duration_ns === null) await new Promise((resolve) => setImmediate(resolve));
  expect(session.stream.isNewest(lastId)).toBe(true);
});

test('a session that is closed while it waits for a page does not play', async () => {
  const { session, clock } = await newSession(TEN_EVENTS);
  const playing = session.play();
  session.close('deleted');
  await expect(playing).rejects.toThrow('the session has ended');
  await clock.pass(20n * MS);
  expect(session.view().event_index).toBe(0);
});

test('an event that is overdue when the speed changes is due now, not earlier', async () => {
  const opened = await newSession(TEN_EVENTS);
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  clock.stall(3n * MS);
  await session.change({ speedFactor: 0.001 });
  await clock.pass(MS);
  expect(events()).toHaveLength(1);
  expect(session.view().lateness.max_ns < MS).toBe(true);
});

test('a new speed of a paused session applies when it resumes', async () => {
  const opened = await newSession(HUNDRED, { speedFactor: 0.5 });
  const { session, clock } = opened;
  await session.play();
  await clock.pass(20n * MS);
  session.pause();
  const { position_ns } = session.view();
  await session.change({ speedFactor: 100 });
  await clock.pass(50n * MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns });
  await session.play();
  await clock.pass(MS);
  expect(session.state).toBe('finished');
});

test('more latency applies to later events: none is repeated or left out, and threads keep their order', async () => {
  const opened = await newSession(HUNDRED);
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  await clock.pass(30n * MS);
  session.pause();
  await session.change({ extraLatencyNs: 5_000_000 });
  const { event_index: changedAt } = session.view();
  expect(session.view()).toMatchObject({ state: 'paused', extra_latency_ns: 5n * MS });
  await session.play();
  await clock.pass(1000n * MS);
  expect(session.state).toBe('finished');
  const played = events();
  expect(played.map(({ replay }) => replay.index)).toEqual(HUNDRED.map((_, index) => index));
  expect(new Set(played.map(({ event_id }) => event_id)).size).toBe(100);
  expect(played.map(({ replay }) => replay.duration_ns)).toEqual([
    ...Array(changedAt).fill(500_000),
    ...Array(100 - changedAt).fill(5_500_000),
  ]);
  for (const thread of [10, 11, 12]) {
    const times = played.filter(({ tid }) => tid === thread).map(({ timestamp_ns }) => BigInt(timestamp_ns));
    expect(times).toEqual([...times].sort((a, b) => Number(a - b)));
  }
});

test('a plan that is slow to change makes events late: none is repeated or left out', async () => {
  const asked = Promise.withResolvers<void>();
  const opened = await newSession(HUNDRED, { beforeChange: () => asked.promise });
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  await clock.pass(10n * MS);
  const changing = session.change({ extraLatencyNs: 3_000_000 });
  await clock.pass(60n * MS);
  const playedBefore = events().length;
  expect(playedBefore).toBeGreaterThan(25);
  expect(playedBefore).toBeLessThan(35);
  asked.resolve();
  await changing;
  await clock.pass(1000n * MS);
  expect(session.state).toBe('finished');
  expect(new Set(events().map(({ event_id }) => event_id)).size).toBe(100);
  expect(events()).toHaveLength(100);
});

test('a change that is refused late leaves the session playing unchanged', async () => {
  const asked = Promise.withResolvers<void>();
  const opened = await newSession(HUNDRED, { beforeChange: () => asked.promise });
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  await clock.pass(10n * MS);
  const changing = session.change({ extraLatencyNs: 3_000_000 });
  await clock.pass(60n * MS);
  asked.reject(new Error('too long'));
  await expect(changing).rejects.toThrow('too long');
  await clock.pass(200n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', extra_latency_ns: 0n });
  expect(events().map(({ replay }) => replay.index)).toEqual(HUNDRED.map((_, index) => index));
});

test('a change at the end leaves played events in place, also for a client that steps back', async () => {
  const opened = await newSession(TEN_EVENTS);
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  await clock.pass(20n * MS);
  const offsets = () => events().map(({ replay }) => [replay.index, replay.offset_ns, replay.duration_ns]);
  const before = offsets();
  await session.change({ extraLatencyNs: 5_000_000 });
  await session.step(-2);
  const pages: string[] = [];
  for await (const page of session.timeline(8, 2)) pages.push(...page);
  expect(pages.map((json) => JSON.parse(json).replay_offset_ns)).toEqual(before.slice(8).map(([, offset]) => offset));
  await session.play();
  await clock.pass(20n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', extra_latency_ns: 5n * MS });
  await session.play();
  await clock.pass(100n * MS);
  expect(session.view().replay_duration_ns).toBeGreaterThan(50n * MS);
});

test('a change that comes too late for all remaining events does not lengthen the replay', async () => {
  const opened = await newSession(TEN_EVENTS);
  const { session, clock } = opened;
  const { events } = watch(opened);
  const { replay_duration_ns } = session.view();
  await session.play();
  await clock.pass(5n * MS);
  await session.change({ extraLatencyNs: 1_000_000_000 });
  await clock.pass(10n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', replay_duration_ns });
  expect(events().map(({ replay }) => replay.index)).toEqual(TEN_EVENTS.map((_, index) => index));
});

test('during playback, events that are due immediately are left unchanged', async () => {
  const opened = await newSession(HUNDRED);
  const { session, clock } = opened;
  const { events } = watch(opened);
  await session.play();
  await clock.pass(10n * MS);
  await session.change({ extraLatencyNs: 1_000_000 });
  await clock.pass(300n * MS);
  const added = events().map(({ replay }) => replay.duration_ns - 500_000);
  expect(added).toHaveLength(100);
  const first = added.findIndex((ns) => ns > 0);
  expect(first).toBeGreaterThan(10);
  expect(first).toBeLessThan(35);
  expect(added.slice(first).every((ns) => ns === 1_000_000)).toBe(true);
  expect(events().every(({ replay }) => replay.lateness_ns < 20_000)).toBe(true);
});

test('after a seek the whole timeline has the latest latency', async () => {
  const { session } = await newSession(HUNDRED);
  await session.step(50);
  await session.change({ extraLatencyNs: 2_000_000 });
  const { replay_duration_ns: changed } = session.view();
  await session.seek({ event_index: 0n });
  const { replay_duration_ns: laidOutAnew } = session.view();
  const fresh = await newSession(HUNDRED, { extraLatencyNs: 2_000_000 });
  expect(laidOutAnew).toBe(fresh.session.view().replay_duration_ns);
  expect(changed! < laidOutAnew!).toBe(true);
});

test('a loop plays everything repeatedly, and ends on request', async () => {
  const opened = await newSession(HUNDRED, { loop: true });
  const { session, clock } = opened;
  const { events, frames } = watch(opened);
  await session.play();
  await clock.pass(250n * MS);
  expect(session.view()).toMatchObject({ state: 'playing', rounds: 2, loop: true });
  const indexes = events().map(({ replay }) => replay.index);
  expect(indexes.slice(0, 200)).toEqual([...HUNDRED, ...HUNDRED].map((_, index) => index % 100));
  await session.change({ loop: false });
  await clock.pass(100n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', rounds: 2 });
  expect(events()).toHaveLength(300);
  expect(frames().filter(({ event }) => event === 'end')).toHaveLength(1);
});

test('a request at the moment when a loop restarts applies to the next round', async () => {
  const { session, clock } = await newSession(HUNDRED, { loop: true });
  await session.play();
  await clock.pass(50n * MS);
  const changing = session.change({ speedFactor: 2, extraLatencyNs: 3 });
  clock.advance(200n * MS);
  await changing;
  await clock.pass(10n * MS);
  expect(session.view()).toMatchObject({ state: 'playing', speed_factor: 2, extra_latency_ns: 3n, failure: null });
  expect(session.view().rounds).toBeGreaterThan(0);

  const seeking = session.seek({ event_index: 40n });
  clock.advance(200n * MS);
  const before = session.view().rounds;
  await seeking;
  expect(session.view()).toMatchObject({ state: 'playing', event_index: 40, rounds: before });
  await clock.pass(3n * MS);
  expect(session.view()).toMatchObject({ state: 'playing', rounds: before });
  expect(session.view().event_index).toBeGreaterThan(40);
});

test('a loop that is paused at the moment of its restart continues from there', async () => {
  const { session, clock } = await newSession(HUNDRED, { loop: true });
  await session.play();
  await session.seek({ event_index: 99n });
  clock.advance(MS);
  session.pause();
  await clock.pass(MS);
  expect(session.state).toBe('paused');
  await session.play();
  await clock.pass(10n * MS);
  expect(session.view()).toMatchObject({ state: 'playing' });
  expect(session.view().rounds).toBeGreaterThan(0);
});

test('gaps are shortened to the requested maximum, and busy times are unchanged', async () => {
  const gapped: PlannedEvent[] = [
    { startNs: 0n, durationNs: 100n * MS, thread: 0 },
    // It runs during the first event, so there is no gap.
    { startNs: 60n * MS, durationNs: MS, thread: 1 },
    { startNs: 1100n * MS, durationNs: MS, thread: 0 },
    { startNs: 1105n * MS, durationNs: MS, thread: 0 },
  ];
  const opened = await newSession(gapped, { maxGapNs: 10_000_000 });
  const { session, clock } = opened;
  const { events } = watch(opened);
  expect(session.view()).toMatchObject({ duration_ns: 1106n * MS, replay_duration_ns: 116n * MS });
  await session.play();
  await clock.pass(120n * MS);
  expect(events().map(({ replay }) => replay.offset_ns / 1e6)).toEqual([0, 60, 110, 115]);
  expect(session.state).toBe('finished');
});

test('any series of commands emits each event once between two seeks, in order and never early', async () => {
  const wait = fc.record({ name: fc.constant('wait'), ns: fc.bigInt({ min: 0n, max: 20n * MS }) });
  const commands = fc.oneof(
    fc.record({ name: fc.constantFrom('play', 'pause') }),
    wait,
    wait,
    fc.record({ name: fc.constant('speed'), factor: fc.constantFrom(0.1, 1, 3, 50) }),
    fc.record({ name: fc.constant('latency'), ns: fc.bigInt({ min: 0n, max: 3n * MS }) }),
    fc.record({ name: fc.constant('step'), count: fc.integer({ min: 1, max: 5 }) }),
  ) as fc.Arbitrary<{ name: string; ns?: bigint; count?: number; factor?: number }>;
  await fc.assert(
    fc.asyncProperty(fc.array(commands, { maxLength: 25 }), async (series) => {
      const opened = await newSession(HUNDRED);
      const { session, clock } = opened;
      const { events } = watch(opened);
      for (const { name, ns = 0n, count = 1, factor = 1 } of series) {
        const before = session.view();
        try {
          if (name === 'play') await session.play();
          else if (name === 'pause') session.pause();
          else if (name === 'wait') await clock.pass(ns);
          else if (name === 'speed') await session.change({ speedFactor: factor });
          else if (name === 'latency') await session.change({ extraLatencyNs: Number(ns) });
          else await session.step(count);
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_transition' });
        }
        const after = session.view();
        if (name === 'speed' || name === 'latency') expect(after.event_index >= before.event_index).toBe(true);
        expect(after.position_ns >= before.position_ns || after.state === 'finished' || name === 'play').toBe(true);
        if (after.state === 'finished') return;
      }
      const played = events();
      expect(played.map(({ replay }) => replay.index)).toEqual(played.map((_, index) => index));
      expect(new Set(played.map(({ event_id }) => event_id)).size).toBe(played.length);
      expect(played.every(({ replay }) => replay.lateness_ns >= 0)).toBe(true);
    }),
    { numRuns: times(30) },
  );
});
