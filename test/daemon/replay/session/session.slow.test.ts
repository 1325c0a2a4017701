/** Tests one session on a simulated clock: what it emits, when, and its position afterwards. */
import fc from 'fast-check';
import { CHUNK_EVENTS } from '../../../../daemon/replay/plan/plan.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { FIRST_NS, MS, newSession, newSink, type PlannedEvent, TEN_EVENTS, watch } from '../fixture.ts';
import { framesOf } from '../frames.ts';

const NS_MAX = 10n ** 18n;

/** A recording whose events become unreadable at some moment. */
function breakable() {
  let isBroken = false;
  return {
    breakDown() {
      isBroken = true;
    },
    through: (store: Recordings): Recordings => ({
      ...store,
      scan(request) {
        if (isBroken) throw new Error('the disk is gone');
        return store.scan(request);
      },
    }),
  };
}

test('plays every event once, in order and never early, and ends after the last one', async () => {
  const { session, clock } = await newSession();
  const { frames, indexes, states } = watch(session);
  const startNs = clock.now();
  await session.play();
  await clock.pass(11n * MS - MS / 2n);
  expect(session.state).toBe('playing');
  expect(session.view()).toMatchObject({ event_index: 10, event_count: 10 });
  await clock.pass(MS);
  expect(indexes()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(states()).toEqual(['ready', 'playing', 'finished']);
  expect(frames().at(-1)).toMatchObject({ event: 'end', data: { reason: 'finished' } });
  for (const { event, data } of frames()) {
    if (event !== 'event') continue;
    expect(BigInt(data.replay.due_ns)).toBe(startNs + BigInt(data.replay.offset_ns));
    expect(BigInt(data.replay.lateness_ns) >= 0n).toBe(true);
  }
  expect(session.view()).toMatchObject({ position_ns: 11n * MS, duration_ns: 11n * MS, replay_duration_ns: 11n * MS });
});

test.each([0.001, 0.3, 7, 1000])('at speed %p deadlines are scaled', async (speedFactor) => {
  const { session, clock } = await newSession(TEN_EVENTS, { speedFactor });
  const { frames } = watch(session);
  const startNs = clock.now();
  await session.play();
  await clock.pass(BigInt(Math.ceil(11e6 / speedFactor)) + MS);
  const events = frames().filter(({ event }) => event === 'event');
  expect(events).toHaveLength(10);
  events.forEach(({ data }, index) => {
    expect(Number(BigInt(data.replay.due_ns) - startNs)).toBe(Math.ceil((index * 1e6) / speedFactor));
  });
});

test('64-bit values of a frame are exact', async () => {
  const { session, clock } = await newSession();
  const { frames } = watch(session);
  await session.play();
  await clock.pass(MS / 2n);
  expect(frames().find(({ event }) => event === 'event')!.text).toContain(`"timestamp_ns":${FIRST_NS},`);
});

test('nothing is emitted while paused, and the rest comes at its time afterwards', async () => {
  const { session, clock } = await newSession();
  const { frames, indexes } = watch(session);
  await session.play();
  await clock.pass(2n * MS + 500_000n);
  session.pause();
  const paused = session.view();
  await clock.pass(50n * MS);
  expect(indexes()).toEqual([0, 1, 2]);
  expect(session.view()).toEqual(paused);
  const resumedNs = clock.now();
  await session.play();
  await clock.pass(20n * MS);
  expect(indexes()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const next = frames().find(({ event, data }) => event === 'event' && data.replay.index === 3)!;
  expect(BigInt(next.data.replay.due_ns)).toBe(resumedNs + 3n * MS - BigInt(paused.position_ns));
});

test('events that were due during a stall before a pause are neither lost nor emitted', async () => {
  const { session, clock } = await newSession();
  const { indexes } = watch(session);
  await session.play();
  await clock.pass(MS / 2n);
  clock.stall(4n * MS);
  session.pause();
  expect(session.view()).toMatchObject({ position_ns: MS, event_index: 1 });
  expect(indexes()).toEqual([0]);
  await session.play();
  await clock.pass(20n * MS);
  expect(indexes()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test('a stall makes events late by the reported amount, and shifts no later deadline', async () => {
  const { session, clock } = await newSession();
  const { frames } = watch(session);
  await session.play();
  await clock.pass(MS / 2n);
  clock.stall(4n * MS);
  await clock.pass(20n * MS);
  const lateness = frames().flatMap(({ event, data }) => (event === 'event' ? Number(data.replay.lateness_ns) : []));
  expect(lateness.slice(1, 5).map((ns) => Math.round(ns / 1e6))).toEqual(
    [4, 3, 2, 1].map((ms) => ms - 0.5).map(Math.round),
  );
  expect(Math.max(...lateness.slice(5))).toBeLessThan(20_000);
  expect(session.view().lateness).toMatchObject({ late_events: 3, max_ns: BigInt(Math.max(...lateness)) });
});

test('a finished session plays again from the start, with new lateness figures', async () => {
  const { session, clock } = await newSession();
  const viewer = newSink();
  session.stream.join(viewer.sink, 0);
  await session.play();
  clock.stall(5n * MS);
  await clock.pass(20n * MS);
  expect(session.view().lateness.late_events).toBeGreaterThan(0);
  const again = watch(session);
  expect(viewer.ended).toBe(true);
  const lastId = Number(framesOf(viewer.text).at(-1)!.id);
  const back = newSink();
  session.stream.join(back.sink, lastId);
  await session.play();
  await clock.pass(20n * MS);
  expect(again.frames().map(({ event }) => event)).toEqual(['state', 'end']);
  expect(
    framesOf(back.text)
      .filter(({ event }) => event === 'event')
      .map(({ data }) => data.replay.index),
  ).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(session.view().lateness.late_events).toBe(0);
});

describe('seek', () => {
  const LATENCY = 3n * MS;
  /** Thread 1 starts between the first two events of thread 0, once they are delayed. */
  const TWO_THREADS: PlannedEvent[] = [
    { startNs: 0n, durationNs: MS, thread: 0 },
    { startNs: 2n * MS, durationNs: MS, thread: 0 },
    { startNs: 4n * MS, durationNs: MS, thread: 1 },
    { startNs: 6n * MS, durationNs: MS, thread: 0 },
  ];

  test.each([
    [{ position_ns: -5n }, 0n, 0],
    [{ position_ns: 0n }, 0n, 0],
    [{ position_ns: 1n }, 1n, 1],
    [{ position_ns: 3n * MS }, 3n * MS, 3],
    [{ position_ns: 10n * MS }, 10n * MS, 10],
    [{ timestamp_ns: 0n }, 0n, 0],
    [{ timestamp_ns: FIRST_NS + 2n * MS + 1n }, 2n * MS + 1n, 3],
    [{ timestamp_ns: FIRST_NS + 9n * MS }, 9n * MS, 9],
    [{ timestamp_ns: FIRST_NS + 10n * MS }, 10n * MS, 10],
    [{ event_number: 4 }, 4n * MS, 4],
    [{ event_index: -3n }, 0n, 0],
    [{ event_index: 9n }, 9n * MS, 9],
  ])('to %p', async (target, position_ns, event_index) => {
    const { session, eventIds } = await newSession();
    await session.seek('event_number' in target ? { event_id: eventIds[target.event_number!]! } : target);
    expect(session.view()).toMatchObject({ state: 'ready', position_ns, event_index });
  });

  test.each([
    { position_ns: 11n * MS },
    { position_ns: NS_MAX },
    { timestamp_ns: FIRST_NS + 11n * MS },
    { event_index: 10n },
    { event_index: NS_MAX },
  ])('to %p finishes', async (target) => {
    const { session } = await newSession();
    const { states, frames } = watch(session);
    await session.play();
    await session.seek(target);
    expect(session.view()).toMatchObject({ state: 'finished', position_ns: 11n * MS, event_index: 10 });
    expect(states()).toEqual(['ready', 'playing', 'finished']);
    expect(frames().at(-1)!.event).toBe('end');
  });

  test.each(['nonsense', '', 'ffffffffffffffff-0000000000000001'])('to unknown event %p', async (event_id) => {
    const { session } = await newSession();
    const before = session.view();
    await expect(session.seek({ event_id })).rejects.toMatchObject({ code: 'event_not_found' });
    expect(session.view()).toEqual(before);
  });

  test('while playing, continues from there at once, backward and forward', async () => {
    const { session, clock } = await newSession();
    const { indexes } = watch(session);
    await session.play();
    await clock.pass(2n * MS + MS / 2n);
    await session.seek({ event_index: 8n });
    await clock.pass(MS / 2n);
    await session.seek({ position_ns: 6n * MS + 1n });
    await clock.pass(20n * MS);
    expect(indexes()).toEqual([0, 1, 2, 8, 7, 8, 9]);
  });

  test('with extra latency, an event is where the projection places it', async () => {
    const { session, eventIds } = await newSession(TWO_THREADS, { extraLatencyNs: Number(LATENCY) });
    // Projected starts: 0, 4 (thread 1), 5, 12.
    await session.seek({ event_id: eventIds[1]! });
    expect(session.view()).toMatchObject({ position_ns: 5n * MS, event_index: 2 });
    await session.seek({ event_index: 1n });
    expect(session.view()).toMatchObject({ position_ns: 4n * MS, event_index: 1 });
    await session.seek({ timestamp_ns: FIRST_NS + MS });
    expect(session.view()).toMatchObject({ position_ns: 4n * MS, event_index: 2 });
    await session.seek({ timestamp_ns: FIRST_NS + 5n * MS });
    expect(session.view()).toMatchObject({ position_ns: 11n * MS, event_index: 3 });
  });

  test('among simultaneous events an id selects the exact event', async () => {
    const planned = Array.from({ length: 4 }, () => ({ startNs: 0n, durationNs: 5n }));
    const { session, clock, eventIds } = await newSession(planned);
    const { indexes } = watch(session);
    await session.seek({ event_id: eventIds[2]! });
    await session.play();
    await clock.pass(MS);
    expect(indexes()).toEqual([2, 3]);
  });
});

describe('step', () => {
  test('emits that many events immediately and waits there', async () => {
    const { session, clock } = await newSession();
    const { indexes, states } = watch(session);
    expect((await session.step(3)).map((json) => JSON.parse(json).replay.index)).toEqual([0, 1, 2]);
    expect(session.view()).toMatchObject({ state: 'paused', position_ns: 2n * MS, event_index: 3 });
    await clock.pass(50n * MS);
    expect(await session.step(-2)).toEqual([]);
    expect(session.view()).toMatchObject({ state: 'paused', position_ns: MS, event_index: 1 });
    await session.step(100);
    expect(indexes()).toEqual([0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(await session.step(1)).toEqual([]);
    expect(session.view()).toMatchObject({ state: 'paused', event_index: 10, lateness: { late_events: 0 } });
    await session.play();
    await clock.pass(2n * MS + 10_000n);
    expect(states().at(-1)).toBe('finished');
    await session.step(-1);
    expect(session.view()).toMatchObject({ state: 'paused', event_index: 9, position_ns: 9n * MS });
  });

  test('is done completely or not at all', async () => {
    const recording = breakable();
    // More events than are read at once.
    const many = Array.from({ length: CHUNK_EVENTS + 1000 }, (_, index) => ({ startNs: BigInt(index) * MS }));
    const { session } = await newSession(many, { through: recording.through });
    const { frames } = watch(session);
    recording.breakDown();
    await expect(session.step(CHUNK_EVENTS + 500)).rejects.toThrow('the disk is gone');
    expect(session.view()).toMatchObject({ state: 'ready', event_index: 0 });
    expect(frames()).toHaveLength(1);
  });
});

test('the timeout is reported by the session and by every event after it', async () => {
  const { session, clock, eventIds } = await newSession(TEN_EVENTS, { timeoutNs: 8n * MS + MS / 2n });
  const { frames } = watch(session);
  expect(session.view()).toMatchObject({ times_out: true, timeout_event_id: eventIds[9]! });
  await session.play();
  await clock.pass(20n * MS);
  const after = frames().flatMap(({ event, data }) => (event === 'event' ? data.replay.after_timeout : []));
  expect(after).toEqual([...Array(9).fill(false), true]);
});

test('without a timeout nothing times out', async () => {
  const { session } = await newSession();
  expect(session.view()).toMatchObject({ timeout_ns: null, times_out: false, timeout_event_id: null });
});

test('extra latency lengthens events and the replay, but not the recorded values', async () => {
  const { session, clock } = await newSession(TEN_EVENTS, { extraLatencyNs: 2_000_000 });
  const { frames } = watch(session);
  expect(session.view()).toMatchObject({ duration_ns: 11n * MS, replay_duration_ns: 31n * MS });
  await session.play();
  await clock.pass(40n * MS);
  const events = frames().filter(({ event }) => event === 'event');
  expect(events.map(({ data }) => data.replay.offset_ns)).toEqual(TEN_EVENTS.map((_, index) => index * 3_000_000));
  expect(events.map(({ data }) => data.replay.duration_ns)).toEqual([...Array(9).fill(2_500_000), 4_000_000]);
  expect(events[0]!.data.duration_ns).toBe(500_000);
});

test('a recording that fails during playback stops the session, which states the reason', async () => {
  const recording = breakable();
  const many = Array.from({ length: 10_000 }, (_, index) => ({ startNs: BigInt(index) * MS }));
  const { session, clock } = await newSession(many, { through: recording.through });
  const { frames, indexes } = watch(session);
  await session.play();
  await clock.pass(MS);
  recording.breakDown();
  await clock.pass(11_000n * MS);
  const { state, failure, event_index } = session.view();
  expect([state, failure]).toEqual(['stopped', 'the disk is gone']);
  expect(event_index).toBeLessThan(10_000);
  expect(indexes()).toEqual(Array.from({ length: event_index }, (_, index) => index));
  expect(frames().at(-1)).toMatchObject({ event: 'end', data: { reason: 'failed' } });
});

test('10 000 simultaneous events come in bursts, completely and in order', async () => {
  const { session, clock } = await newSession(Array.from({ length: 10_007 }, () => ({ startNs: 0n })));
  const { indexes } = watch(session);
  await session.play();
  await clock.pass(100n * MS);
  expect(indexes()).toEqual(Array.from({ length: 10_007 }, (_, index) => index));
});

test('any series of commands keeps the position between start and end, and emits in order between seeks', async () => {
  const commands = fc.oneof(
    fc.record({ name: fc.constantFrom('play', 'pause') }),
    fc.record({ name: fc.constant('wait'), ns: fc.bigInt({ min: 0n, max: 4n * MS }) }),
    fc.record({ name: fc.constant('seek'), ns: fc.bigInt({ min: -MS, max: 12n * MS }) }),
    fc.record({ name: fc.constant('step'), count: fc.integer({ min: -3, max: 3 }).filter((count) => count !== 0) }),
  ) as fc.Arbitrary<{ name: string; ns?: bigint; count?: number }>;
  await fc.assert(
    fc.asyncProperty(fc.array(commands, { maxLength: 30 }), async (series) => {
      const { session, clock } = await newSession();
      const viewer = newSink();
      session.stream.join(viewer.sink, null);
      let seen = 0;
      for (const { name, ns = 0n, count = 1 } of series) {
        const from = session.view().event_index;
        try {
          if (name === 'play') await session.play();
          else if (name === 'pause') session.pause();
          else if (name === 'wait') await clock.pass(ns);
          else if (name === 'seek') await session.seek({ position_ns: ns });
          else await session.step(count);
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_transition' });
        }
        const { position_ns, event_index } = session.view();
        expect(position_ns >= 0n && position_ns <= 11n * MS).toBe(true);
        if (viewer.ended) return;
        const emitted = framesOf(viewer.text)
          .filter(({ event }) => event === 'event')
          .slice(seen);
        seen += emitted.length;
        if (emitted.length > 0) {
          expect(emitted.map(({ data }) => data.replay.index)).toEqual(emitted.map((_, i) => from + i));
          expect(event_index).toBe(from + emitted.length);
        }
      }
    }),
  );
});
