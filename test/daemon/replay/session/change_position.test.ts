/** Tests that the position of a session never goes back while a change is being applied. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SessionChange } from '../../../../daemon/replay/session/session_view.ts';
import { MS, newSession, type PlannedEvent, watch } from '../fixture.ts';

/** Three events, 100 ms apart, of which the last takes 100 ms. */
const APART: readonly PlannedEvent[] = [
  { startNs: 0n },
  { startNs: 100n * MS },
  { startNs: 200n * MS, durationNs: 100n * MS },
];

const CHANGES: [string, SessionChange][] = [
  ['latency', { extraLatencyNs: 1_000_000 }],
  ['only', { extraLatencyNs: 5_000_000, only: { services: ['none'] } }],
  ['longer gaps', { maxGapNs: 500_000_000 }],
  ['timeout', { timeoutNs: 5n * MS }],
  ['speed', { speedFactor: 0.5 }],
];

/** Where the session is at every step of a change. */
async function positionsDuring(session: Awaited<ReturnType<typeof newSession>>['session'], change: SessionChange) {
  const positions: bigint[] = [];
  let isDone = false;
  const changing = session.change(change).finally(() => {
    isDone = true;
  });
  while (!isDone) {
    for (let step = 0; step < 50; step++) {
      positions.push(session.view().position_ns);
      await null;
    }
    await nextTurn();
  }
  await changing;
  return [...positions, session.view().position_ns];
}

describe.each([50n, 150n, 250n])('after %d ms', (ms) => {
  test.each(CHANGES)('%s of a session that plays', async (_, change) => {
    const { session, clock } = await newSession(APART);
    await session.play();
    await clock.pass(ms * MS);
    expect(new Set(await positionsDuring(session, change))).toEqual(new Set([ms * MS]));
  });

  test.each(CHANGES)('%s of a session that is paused', async (_, change) => {
    const { session } = await newSession(APART);
    await session.seek({ position_ns: ms * MS });
    expect(new Set(await positionsDuring(session, change))).toEqual(new Set([ms * MS]));
  });
});

test.each(CHANGES)('a pause while %s is changed keeps the position', async (_, change) => {
  for (let steps = 0; steps < 40; steps++) {
    const { session, clock } = await newSession(APART);
    const viewer = watch(session);
    await session.play();
    await clock.pass(50n * MS);
    const changing = session.change(change);
    for (let step = 0; step < steps; step++) await null;
    session.pause();
    await changing;
    expect(session.view()).toMatchObject({ state: 'paused', position_ns: 50n * MS, event_index: 1 });
    await session.play();
    await clock.pass(2000n * MS);
    expect(viewer.indexes()).toEqual([0, 1, 2]);
    session.close('deleted');
  }
});

test('time that a plan takes for a change does not move the time line', async () => {
  let during = async () => {};
  const { session, clock } = await newSession(APART, { beforeChange: () => during() });
  during = () => clock.pass(80n * MS);
  const viewer = watch(session);
  await session.play();
  const startNs = clock.now();
  await clock.pass(50n * MS);
  await session.change({ extraLatencyNs: 1_000_000 });
  await clock.pass(400n * MS);
  const due = viewer.frames().flatMap(({ event, data }) => (event === 'event' ? [BigInt(data.replay.due_ns)] : []));
  expect(due.map((ns) => ns - startNs)).toEqual([0n, 100n * MS, 201n * MS]);
  expect(session.view().lateness.max_ns).toBeGreaterThanOrEqual(30n * MS);
});

test('in a gap that is cut the next event is due when the change was asked for', async () => {
  let during = async () => {};
  const { session, clock } = await newSession(APART, { beforeChange: () => during() });
  during = () => clock.pass(10n * MS);
  const viewer = watch(session);
  await session.play();
  const startNs = clock.now();
  await clock.pass(50n * MS);
  await session.change({ maxGapNs: 20_000_000 });
  await clock.pass(400n * MS);
  const due = viewer.frames().flatMap(({ event, data }) => (event === 'event' ? [BigInt(data.replay.due_ns)] : []));
  expect(due.map((ns) => ns - startNs)).toEqual([0n, 50n * MS, 70n * MS]);
});
