/** Tests sessions that pause by themselves where the caller's wait ends, before what is written back later. */
import fc from 'fast-check';
import type { SessionChange } from '../../../../daemon/replay/session/session_view.ts';
import { times } from '../../../repeats.ts';
import { MS, newSession, type PlannedEvent, watch } from '../fixture.ts';

const UNTIL = 'replay_duration_ns';
const MS_EACH = Number(MS);
const UNKNOWN_EVENT = `${'0'.repeat(16)}-${'f'.repeat(16)}`;

/** The caller waits for 10 ms; a request is written back while it waits, and two more after that. */
const WRITTEN_BACK: readonly PlannedEvent[] = [
  { startNs: 0n, durationNs: 2n * MS },
  { startNs: 3n * MS, durationNs: MS, isWrittenBack: true },
  { startNs: 4n * MS, durationNs: 6n * MS },
  { startNs: 12n * MS, durationNs: MS, isWrittenBack: true },
  { startNs: 900n * MS, durationNs: MS, isWrittenBack: true },
];

async function opened(planned = WRITTEN_BACK, setting = {}) {
  const made = await newSession(planned, setting);
  return { ...made, ...watch(made.session) };
}

const PAUSED = { state: 'paused', position_ns: 10n * MS, replay_duration_ns: 10n * MS, event_index: 3, until: null };

test('it pauses there once, and plays on to what is written back', async () => {
  const { session, clock, indexes, states } = await opened();
  await session.play(UNTIL);
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL });
  await clock.pass(10n * MS - 1n);
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL });
  await clock.pass(2000n * MS);
  expect(session.view()).toMatchObject(PAUSED);
  expect(indexes()).toEqual([0, 1, 2]);
  await session.play(UNTIL);
  expect(session.view()).toMatchObject({ state: 'playing', until: null });
  await clock.pass(2000n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', until: null });
  expect(indexes()).toEqual([0, 1, 2, 3, 4]);
  expect(states()).toEqual(['ready', 'playing', 'paused', 'playing', 'finished']);
});

test('it pauses exactly there, however late the daemon is, and nothing later has been played', async () => {
  const { session, clock, indexes } = await opened();
  await session.play(UNTIL);
  await clock.pass(9n * MS);
  clock.stall(1500n * MS);
  expect(session.view().position_ns).toBe(10n * MS);
  await clock.pass(MS);
  expect(session.view()).toMatchObject(PAUSED);
  expect(indexes()).toEqual([0, 1, 2]);
});

test('an event that starts at that moment is played, one that starts a nanosecond later is not', async () => {
  const { session, clock, indexes } = await opened([
    { startNs: 0n, durationNs: 5n * MS },
    { startNs: 5n * MS, durationNs: MS, isWrittenBack: true },
    { startNs: 5n * MS + 1n, durationNs: MS, isWrittenBack: true },
  ]);
  await session.play(UNTIL);
  await clock.pass(20n * MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns: 5n * MS });
  expect(indexes()).toEqual([0, 1]);
});

test('play again after the end pauses there again', async () => {
  const { session, clock } = await opened();
  await session.play();
  await clock.pass(2000n * MS);
  expect(session.state).toBe('finished');
  await session.play(UNTIL);
  await clock.pass(2000n * MS);
  expect(session.view()).toMatchObject(PAUSED);
});

test('a session that plays keeps its place to pause, unless play says otherwise', async () => {
  const { session, clock, states } = await opened();
  await session.play();
  await clock.pass(MS);
  await session.play(UNTIL);
  await session.play();
  expect(session.view().until).toBe(UNTIL);
  await session.play(UNTIL);
  expect(states()).toEqual(['ready', 'playing', 'playing']);
  await session.play(null);
  expect(session.view().until).toBeNull();
  await session.play(UNTIL);
  await clock.pass(2000n * MS);
  expect(session.view()).toMatchObject(PAUSED);
});

test('a pause takes it away', async () => {
  const { session, clock } = await opened();
  await session.play(UNTIL);
  session.pause();
  await session.play();
  await clock.pass(2000n * MS);
  expect(session.state).toBe('finished');
});

test('a session that loops, or is moved past it, plays on', async () => {
  const { session, clock, indexes } = await opened();
  await session.play(UNTIL);
  await session.change({ loop: true });
  await clock.pass(905n * MS);
  expect(session.view()).toMatchObject({ rounds: 1, state: 'playing', until: null });
  await session.seek({ position_ns: 11n * MS });
  await session.change({ loop: false });
  expect(session.view()).toMatchObject({ state: 'playing', until: null });
  await clock.pass(2000n * MS);
  expect(session.state).toBe('finished');
  expect(indexes()).toEqual([0, 1, 2, 3, 4, 0, 1, 2, 3, 4].slice(0, indexes().length));

  const moved = await opened();
  await moved.session.play(UNTIL);
  await moved.session.seek({ position_ns: 11n * MS });
  expect(moved.session.view()).toMatchObject({ state: 'playing', until: null });
  await moved.session.seek({ position_ns: 0n });
  await moved.clock.pass(2000n * MS);
  expect(moved.session.state).toBe('finished');
});

test('a transaction that nothing is written back of plays to its end, and so does one that waits for nothing', async () => {
  for (const planned of [WRITTEN_BACK.slice(0, 3), WRITTEN_BACK.slice(3)]) {
    const { session, clock, indexes } = await opened(planned);
    await session.play(UNTIL);
    await clock.pass(2000n * MS);
    expect(session.state).toBe('finished');
    expect(indexes()).toEqual(planned.map((_, index) => index));
  }
});

test.each<[string, SessionChange, bigint]>([
  ['more latency', { extraLatencyNs: 150 * MS_EACH }, 400n],
  ['less latency', { extraLatencyNs: 0 }, 250n],
  ['shorter gaps', { maxGapNs: MS_EACH }, 203n],
])('%s while it plays moves the place', async (_, change, endMs) => {
  const planned = [
    { startNs: 0n, durationNs: 2n * MS },
    { startNs: 100n * MS, durationNs: 100n * MS },
    { startNs: 230n * MS, durationNs: MS, isWrittenBack: true },
    { startNs: 1000n * MS, durationNs: MS, isWrittenBack: true },
  ];
  const { session, clock, indexes } = await opened(planned, { extraLatencyNs: 50 * MS_EACH });
  await session.play(UNTIL);
  await clock.pass(MS);
  await session.change(change);
  await clock.pass((endMs - 2n) * MS);
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL });
  await clock.pass(5000n * MS);
  const { state, position_ns, replay_duration_ns } = session.view();
  expect({ state, position_ns, replay_duration_ns }).toEqual({
    ...{ state: 'paused', position_ns: endMs * MS, replay_duration_ns: endMs * MS },
  });
  expect(indexes()).toEqual(indexes().map((_, index) => index));
});

/** Half a thousand calls in half a second; what is written back begins right after them. */
const LONG: readonly PlannedEvent[] = [
  ...Array.from({ length: 500 }, (_, index) => ({ startNs: BigInt(index) * MS, durationNs: MS / 2n })),
  ...[501n, 502n, 4000n].map((ms) => ({ startNs: ms * MS, durationNs: MS, isWrittenBack: true })),
];
const WAIT_NS = 499n * MS + MS / 2n;

/** A session whose planner looks at all events again, after a change, only when it is let. */
async function openedSlow() {
  let isUnknown = false;
  const made = await opened(LONG, { isUnknown: () => isUnknown });
  return {
    ...made,
    forget() {
      isUnknown = true;
    },
    know() {
      isUnknown = false;
      made.session.takeOutline();
    },
  };
}

test('it pauses there also where a change leaves the end of the wait unknown for a while', async () => {
  const { session, clock, indexes, forget, know } = await openedSlow();
  await session.play(UNTIL);
  await clock.pass(400n * MS);
  forget();
  await session.change({ extraLatencyNs: MS_EACH });
  await clock.pass(50n * MS);
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL, replay_duration_ns: null });
  know();
  await clock.pass(60_000n * MS);
  const { state, position_ns, replay_duration_ns } = session.view();
  expect({ state, position_ns }).toEqual({ state: 'paused', position_ns: replay_duration_ns });
  expect(position_ns).toBeGreaterThan(WAIT_NS + 50n * MS);
  expect(indexes()).toEqual(indexes().map((_, index) => index));
});

test('a deadline that is set just before the place changes nothing of it', async () => {
  const { session, clock, indexes, forget, know } = await openedSlow();
  await session.play(UNTIL);
  await clock.pass(WAIT_NS - 100_000n);
  forget();
  await session.change({ timeoutNs: MS });
  await clock.pass(100n * MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns: WAIT_NS, replay_duration_ns: null });
  know();
  await clock.pass(20_000n * MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns: WAIT_NS, event_index: 500 });
  expect(indexes()).toHaveLength(500);
});

test('a session that is past it before the end of the wait is known plays on', async () => {
  const { session, clock, forget, know } = await openedSlow();
  await session.seek({ position_ns: 1000n * MS });
  forget();
  await session.change({ extraLatencyNs: 1000 });
  await session.play(UNTIL);
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL, replay_duration_ns: null });
  await clock.pass(100n * MS);
  know();
  expect(session.view()).toMatchObject({ state: 'playing', until: null });
  await clock.pass(20_000n * MS);
  expect(session.state).toBe('finished');
});

/** The caller waits for 4 s, and for nothing but itself in 3 of them. */
const IDLE: readonly PlannedEvent[] = [
  { startNs: 0n, durationNs: 500n * MS },
  { startNs: 3500n * MS, durationNs: 500n * MS },
  { startNs: 4200n * MS, durationNs: MS, isWrittenBack: true },
  { startNs: 9000n * MS, durationNs: MS, isWrittenBack: true },
];

test('a seek after gaps were cut, when the old position is past the new place, goes on to play up to it', async () => {
  const { session, clock, indexes } = await opened(IDLE);
  await session.play(UNTIL);
  await clock.pass(3400n * MS);
  await session.change({ maxGapNs: MS_EACH });
  await session.seek({ event_index: 0n });
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL, event_index: 0 });
  await clock.pass(20_000n * MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns: 1001n * MS });
  expect(indexes().slice(-2)).toEqual([0, 1]);

  const late = await opened(IDLE);
  await late.session.play(UNTIL);
  await late.clock.pass(3800n * MS);
  await late.session.change({ maxGapNs: MS_EACH });
  await late.session.seek({ position_ns: 900n * MS });
  expect(late.session.view()).toMatchObject({ state: 'playing', until: UNTIL, position_ns: 900n * MS });
  await late.clock.pass(20_000n * MS);
  expect(late.session.view()).toMatchObject({ state: 'paused', position_ns: 1001n * MS });
});

test('gaps that are cut while it stands in one that it began to play from leave it its place', async () => {
  const { session, clock, indexes } = await opened(IDLE);
  await session.seek({ position_ns: 3000n * MS });
  await session.play(UNTIL);
  await clock.pass(100n * MS);
  await session.change({ maxGapNs: MS_EACH });
  expect(session.view()).toMatchObject({ state: 'playing', until: UNTIL });
  await clock.pass(20_000n * MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns: 1001n * MS });
  expect(indexes()).toEqual([1]);
});

test('a change of the loop to what it is, or a seek that fails, leaves it its place', async () => {
  const { session, clock } = await opened();
  await session.play(UNTIL);
  await clock.pass(9n * MS);
  clock.stall(50n * MS);
  await session.change({ loop: false });
  await clock.pass(MS);
  expect(session.view()).toMatchObject(PAUSED);

  const other = await openedSlow();
  await other.session.play(UNTIL);
  await other.clock.pass(MS);
  other.forget();
  await other.session.change({ timeoutNs: MS });
  await expect(other.session.seek({ event_id: UNKNOWN_EVENT })).rejects.toThrow();
  await other.clock.pass(2000n * MS);
  expect(other.session.view()).toMatchObject({ state: 'paused', position_ns: WAIT_NS });
});

test('a session that plays past the place plays on, whatever the daemon has looked at by then', async () => {
  const { session, clock } = await newSession(WRITTEN_BACK);
  await session.play();
  clock.advance(11n * MS);
  await session.play(UNTIL);
  expect(session.view()).toMatchObject({ state: 'playing', until: null });
  expect(session.view().position_ns).toBeGreaterThanOrEqual(11n * MS);
  await clock.pass(2000n * MS);
  expect(session.state).toBe('finished');
});

test('at a high speed no event is played that starts a nanosecond later', async () => {
  const { session, clock, indexes } = await opened(
    [
      { startNs: 0n, durationNs: 1n },
      { startNs: 2n, durationNs: 1n, isWrittenBack: true },
    ],
    { speedFactor: 1000 },
  );
  await session.play(UNTIL);
  await clock.pass(MS);
  expect(session.view()).toMatchObject({ state: 'paused', position_ns: 1n, event_index: 1 });
  expect(indexes()).toEqual([0]);
});

const events = fc
  .array(
    fc.record({
      startNs: fc.bigInt(0n, 2000n * MS),
      durationNs: fc.bigInt(0n, 300n * MS),
      isWrittenBack: fc.boolean(),
      thread: fc.nat(3),
    }),
    { minLength: 1, maxLength: 40 },
  )
  .map((listed) => listed.sort((a, b) => Number(a.startNs - b.startNs)))
  .map(([first, ...rest]) => [{ ...first!, startNs: 0n, isWrittenBack: false }, ...rest]);

const act = fc.oneof(
  fc.record({ passNs: fc.bigInt(0n, 700n * MS) }),
  fc.record({ stallNs: fc.bigInt(0n, 700n * MS) }),
  fc.record({ speedFactor: fc.constantFrom(0.5, 1, 3, 40) }),
  fc.record({ timeoutNs: fc.bigInt(1n, 2000n * MS) }),
);

test('whatever the events, speeds and delays are: each until then comes once and in order, and no other', async () => {
  await fc.assert(
    fc.asyncProperty(events, fc.array(act, { maxLength: 12 }), async (planned, acts) => {
      const { session, clock, indexes } = await opened(planned);
      // The same from the events alone.
      const ends = planned.map(({ startNs, durationNs }) => startNs + durationNs);
      const endNs = ends.reduce((most, end) => (end > most ? end : most));
      const ownEndNs = ends.reduce((most, end, i) => (planned[i]!.isWrittenBack || end <= most ? most : end), 0n);
      await session.play(UNTIL);
      for (const next of acts) {
        if ('passNs' in next) await clock.pass(next.passNs);
        else if ('stallNs' in next) clock.stall(next.stallNs);
        else await session.change(next);
        expect(session.view().position_ns).toBeLessThanOrEqual(ownEndNs || endNs);
      }
      await clock.pass(60_000n * MS);
      const pauses = ownEndNs > 0n && ownEndNs < endNs;
      const atNs = pauses ? ownEndNs : endNs;
      expect(session.view()).toMatchObject({ state: pauses ? 'paused' : 'finished', position_ns: atNs });
      expect(indexes()).toEqual(planned.filter(({ startNs }) => startNs <= atNs).map((_, index) => index));
      await session.play(UNTIL);
      await clock.pass(60_000n * MS);
      if (pauses) expect(session.state).toBe('finished');
      expect(new Set(indexes()).size).toBe(planned.length);
    }),
    { numRuns: times(40) },
  );
});
