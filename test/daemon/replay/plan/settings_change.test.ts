/** Tests changes of the deadline, of gaps and of which events get the latency, in each state of a session. */
import fc from 'fast-check';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../../repeats.ts';
import { type Row, recordedOn, recordingPath, START } from '../../recorded.ts';
import { MS, newSession, type PlannedEvent, TEN_EVENTS, watch } from '../fixture.ts';

const DUE = Array.from({ length: 10 }, (_, index) => index);

/** Ten events of one thread with 10 ms between the fifth and the sixth. */
const WITH_GAP: readonly PlannedEvent[] = DUE.map((index) => ({
  startNs: BigInt(index) * MS + (index < 5 ? 0n : 10n * MS),
  durationNs: MS / 2n,
}));

const NONE = { services: ['none'] };

function eventsOf(viewer: ReturnType<typeof watch>) {
  return viewer.frames().flatMap(({ event, data }) => (event === 'event' ? [data.replay] : []));
}

test('a new deadline counts for events that are still to come, and nothing moves', async () => {
  const { session, clock, eventIds } = await newSession(TEN_EVENTS);
  const viewer = watch(session);
  await session.play();
  await clock.pass(4n * MS + MS / 4n);
  const { position_ns } = session.view();
  await session.change({ timeoutNs: 3n * MS });
  expect(session.view()).toMatchObject({ state: 'playing', position_ns, timeout_ns: 3n * MS });
  await clock.pass(20n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', times_out: true, timeout_event_id: eventIds[3] });
  const played = eventsOf(viewer);
  expect(played.map(({ index }) => index)).toEqual(DUE);
  expect(played.map(({ offset_ns }) => offset_ns)).toEqual(DUE.map((index) => index * 1e6));
  expect(played.map(({ after_timeout }) => after_timeout)).toEqual(DUE.map((index) => index >= 5));
  await session.change({ timeoutNs: null });
  expect(session.view()).toMatchObject({ timeout_ns: null, times_out: false, timeout_event_id: null });
});

test('after a seek to the end, events are played where the new latency has them', async () => {
  const { session, clock } = await newSession(TEN_EVENTS);
  await session.play();
  await clock.pass(3n * MS + MS / 4n);
  session.pause();
  await session.change({ extraLatencyNs: 5_000_000 });
  await session.seek({ position_ns: 10n ** 18n });
  await session.step(-2);
  const scheduled = [];
  for await (const page of session.timeline(8, 2))
    scheduled.push(...page.map((json) => JSON.parse(json).replay_offset_ns as number));
  const viewer = watch(session);
  await session.play();
  await clock.pass(200n * MS);
  expect(session.state).toBe('finished');
  expect(eventsOf(viewer)).toMatchObject([
    { index: 8, offset_ns: scheduled[0] },
    { index: 9, offset_ns: scheduled[1] },
  ]);
});

test('a seek that fails while a new latency is applied leaves the session its end', async () => {
  const many = Array.from({ length: 5000 }, (_, index) => ({ startNs: BigInt(index) * MS, durationNs: MS / 2n }));
  const { session, clock } = await newSession(many);
  await session.play();
  await clock.pass(100n * MS);
  await session.change({ extraLatencyNs: 1000 });
  await expect(session.seek({ event_id: 'nonsense' })).rejects.toMatchObject({ code: 'event_not_found' });
  for (let turns = 0; turns < 1000 && session.view().replay_duration_ns === null; turns++) await clock.pass(1000n);
  expect(session.view().replay_duration_ns).not.toBeNull();
  await clock.pass(20_000n * MS);
  expect(session.state).toBe('finished');
});

test('in a gap that gets shorter than the time spent in it the next event is due now', async () => {
  const { session, clock } = await newSession(WITH_GAP, { speedFactor: 0.01 });
  const viewer = watch(session);
  await session.play();
  await clock.pass(900n * MS);
  expect(viewer.indexes()).toEqual([0, 1, 2, 3, 4]);
  const changedNs = clock.now();
  // The fifth ends at 4.5 ms.
  await session.change({ maxGapNs: 1_000_000 });
  expect(session.view()).toMatchObject({ state: 'playing', max_gap_ns: MS, position_ns: 5n * MS + MS / 2n });
  await clock.pass(2000n * MS);
  const played = eventsOf(viewer);
  expect(played.map(({ index }) => index)).toEqual(DUE);
  expect(played.slice(5).map(({ offset_ns }) => offset_ns)).toEqual(DUE.slice(5).map((index) => index * 1e6 + 500_000));
  expect(BigInt(played[5].due_ns) - changedNs).toBe(0n);
  expect(session.view()).toMatchObject({ state: 'finished', replay_duration_ns: 10n * MS });
  expect(session.view().lateness).toMatchObject({ max_ns: 0n });
});

test('a gap that is not cut any more is as recorded, and a paused session stays where it is', async () => {
  const { session, clock } = await newSession(WITH_GAP, { maxGapNs: 0 });
  await session.play();
  await clock.pass(2n * MS + MS / 4n);
  session.pause();
  const { position_ns } = session.view();
  await session.change({ maxGapNs: null });
  expect(session.view()).toMatchObject({ state: 'paused', position_ns, max_gap_ns: null });
  const viewer = watch(session);
  await session.play();
  await clock.pass(30n * MS);
  // Without gaps five events had come by then, in 2.5 ms; the next gaps are 10.5 ms, and then 0.5 ms.
  expect(eventsOf(viewer).map(({ offset_ns }) => offset_ns)).toEqual([13e6, 14e6, 15e6, 16e6, 17e6]);
});

test('events get the latency from the next one on, each is played once, and a seek lays all out', async () => {
  const { session, clock } = await newSession(TEN_EVENTS, { extraLatencyNs: 1_000_000, only: NONE, speedFactor: 0.01 });
  const viewer = watch(session);
  expect(session.view()).toMatchObject({ only: { service: ['none'] }, replay_duration_ns: 11n * MS });
  await session.play();
  await clock.pass(450n * MS);
  await session.change({ only: {} });
  expect(session.view().only).toEqual({});
  await clock.pass(2000n * MS);
  const played = eventsOf(viewer);
  expect(played.map(({ index }) => index)).toEqual(DUE);
  expect(played.map(({ offset_ns }) => offset_ns)).toEqual(
    DUE.map((index) => index * 1e6 + Math.max(index - 5, 0) * 1e6),
  );
  await session.seek({ event_index: 9n });
  expect(session.view()).toMatchObject({ position_ns: 18n * MS, replay_duration_ns: 21n * MS });
});

test('a change that changes nothing moves nothing', async () => {
  const { session } = await newSession(TEN_EVENTS, { maxGapNs: 5, timeoutNs: 7n, only: NONE, extraLatencyNs: 3 });
  const before = session.view();
  await session.change({ maxGapNs: 5, timeoutNs: 7n, only: NONE, extraLatencyNs: 3 });
  expect({ ...session.view(), last_event_id: 0, updated_at: '' }).toEqual({
    ...before,
    last_event_id: 0,
    updated_at: '',
  });
});

const rowsOf = fc.array(
  fc.record({
    gapNs: fc.nat(1000),
    durationNs: fc.nat(5000),
    tid: fc.nat(3),
    service: fc.constantFrom('web', 'db'),
    node: fc.constantFrom('node-a', 'node-b'),
    type: fc.constantFrom('sys_write' as const, 'block_io' as const),
  }),
  { minLength: 1, maxLength: 40 },
);
const onlyOf = fc.record(
  {
    eventTypes: fc.constantFrom(['sys_write'], ['block_io']),
    services: fc.constantFrom(['web'], ['db']),
    nodes: fc.constantFrom(['node-a'], ['node-b']),
  },
  { requiredKeys: [] },
);

test('a session takes as long as what-if says for the same events', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, onlyOf, onlyOf, fc.nat(3000), async (planned, only, other, extraLatencyNs) => {
      let at = START;
      const rows = planned.map(({ gapNs, durationNs, node, ...more }) => {
        at += BigInt(gapNs);
        return { node, row: { ...more, at, duration: BigInt(durationNs), transaction: 'tx-1' } satisfies Row };
      });
      const folders = [...Map.groupBy(rows, ({ node }) => node)].map(([node, own]) =>
        recordedOn(
          node,
          own.map(({ row }) => row),
        ),
      );
      const store = openRecordingStore(undefined, folders.map(recordingPath));
      const planner = createPlanner(store);
      const asked = { transactionId: 'tx-1', timeoutNs: null, clockOffsetsNs: {} };
      const told = await planner.whatIf({ ...asked, extraLatencyNs: BigInt(extraLatencyNs), only, limit: 0 });
      const open = (first: object) =>
        planner.open({ ...asked, maxGapNs: null, latency: [{ fromIndex: 0, extraLatencyNs, ...first }] }, () => {});
      const plan = await open({ only });
      expect(plan.outline.survey!.durationNs).toBe(Number(told.durationNs));
      // The same by a change before the first event, and by one on the way that a seek applies to all events.
      const changed = await open({ only: other });
      await changed.changeLatency(0, { extraLatencyNs, only });
      await changed.place({ event_index: 0n });
      const sought = await open({ only: other });
      await sought.changeLatency(Math.floor(rows.length / 2), { extraLatencyNs, only });
      await sought.place({ event_index: 0n });
      for (const one of [changed, sought]) {
        expect(one.outline.survey).toEqual(plan.outline.survey);
        expect((await one.readPage(0, 100)).startNs).toEqual((await plan.readPage(0, 100)).startNs);
      }
      for (const one of [plan, changed, sought]) one.close();
      store.close();
    }),
    { numRuns: times(15) },
  );
});
