/** Tests that a change is admitted by the rate that it leads to: what it does to the layout is computed before. */
import { createRequest } from '../../../../daemon/contract/replay_requests.ts';
import { createPlanner, type Planner } from '../../../../daemon/replay/plan/planner.ts';
import { createSessions, type Sessions } from '../../../../daemon/replay/session/sessions.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { MS } from '../fixture.ts';
import { createSimulatedClock } from '../simulated_clock.ts';

const opened: { close(): unknown }[] = [];
afterEach(() => {
  for (const one of opened.splice(0).reverse()) one.close();
});

/**
 * `dense` has 1001 events of 1 us in a second, `gapped` has them with ten seconds between the halves. Of these, every
 * tenth is of the service db, and all are of one thread.
 */
const ROWS: Row[] = ['dense', 'gapped'].flatMap((transaction) =>
  Array.from({ length: 1001 }, (_, n): Row => {
    const at = START + BigInt(n) * MS + (transaction === 'gapped' && n > 500 ? 10_000n * MS : 0n);
    return { at, transaction, tid: 1, duration: 1000n, service: n % 10 === 0 ? 'db' : 'web' };
  }),
);

/** The folder of each series of events, which is recorded only once. */
const folders = new Map<readonly Row[], string>();

function recordedOnce(rows: readonly Row[]): string {
  const folder = folders.get(rows) ?? recorded(rows);
  folders.set(rows, folder);
  return folder;
}

function newSessions(replayRateMax: number, rows = ROWS, through = (planner: Planner) => planner) {
  const store = openRecordingStore(recordedOnce(rows));
  const clock = createSimulatedClock();
  const { now: steadyNow, timers } = clock;
  const limits = { replayRateMax };
  const planner = through(createPlanner(store));
  const sessions = createSessions({ planner, now: () => START, steadyNow, timers, limits });
  opened.push(store, sessions);
  return { sessions, clock };
}

const make = (sessions: Sessions, transaction_id: string, more: object = {}) =>
  sessions.create(createRequest.parse({ transaction_id, loop: true, ...more }));

const REFUSED = { code: 'replay_capacity' };

test('a shorter limit of gaps is admitted if the events that follow are not too many', async () => {
  const { sessions, clock } = newSessions(120_000);
  const [fast, gapped] = [await make(sessions, 'dense', { speed_factor: 100 }), await make(sessions, 'gapped')];
  await Promise.all([fast.play(), gapped.play()]);
  await clock.pass(2000n * MS);
  // 1001 events in a second, and a hundred more for the round.
  await gapped.change({ maxGapNs: 1_000_000 });
  expect(gapped.view()).toMatchObject({ state: 'playing', max_gap_ns: MS });
  // In a millisecond they are a million a second.
  await expect(gapped.change({ maxGapNs: 0 })).rejects.toMatchObject(REFUSED);
  expect(gapped.view()).toMatchObject({ state: 'playing', max_gap_ns: MS });
  // Ten times as fast is refused as well: the next round takes a second.
  await gapped.change({ speedFactor: 8 });
  await expect(gapped.change({ speedFactor: 10 })).rejects.toMatchObject(REFUSED);
  // Others count it by its next round too.
  const third = await make(sessions, 'dense', { speed_factor: 5 });
  await expect(third.play()).rejects.toMatchObject(REFUSED);
  await gapped.change({ maxGapNs: null });
  await third.play();
});

test('events that get the latency no longer are counted as they are', async () => {
  const { sessions, clock } = newSessions(150_000);
  const latency = { speed_factor: 1000, extra_latency_ns: 100_000_000 };
  const [fast, slow] = [await make(sessions, 'dense', { speed_factor: 100 }), await make(sessions, 'dense', latency)];
  await Promise.all([fast.play(), slow.play()]);
  await clock.pass(20n * MS);
  // A tenth of the latency is left: eleven seconds, in eleven milliseconds. Without it there would be a million a second.
  await expect(slow.change({ only: { services: ['none'] } })).rejects.toMatchObject(REFUSED);
  await expect(slow.change({ only: { services: ['db'] } })).rejects.toMatchObject(REFUSED);
  await slow.change({ only: { services: ['db'] }, speedFactor: 300 });
  expect(slow.view()).toMatchObject({ state: 'playing', speed_factor: 300 });
});

test('a paused session that was changed on the way is measured when it plays again', async () => {
  const { sessions, clock } = newSessions(120_000);
  const [fast, gapped] = [await make(sessions, 'dense', { speed_factor: 100 }), await make(sessions, 'gapped')];
  await Promise.all([fast.play(), gapped.play()]);
  await clock.pass(700n * MS);
  gapped.pause();
  await gapped.change({ maxGapNs: 5_000_000 });
  await gapped.play();
  gapped.pause();
  await gapped.change({ maxGapNs: 0 });
  await expect(gapped.play()).rejects.toMatchObject(REFUSED);
  expect(gapped.state).toBe('paused');
});

describe('a session of many events', () => {
  /** A thousand a second for a minute, with ten seconds in the middle. */
  const LONG: Row[] = [
    ...ROWS,
    ...Array.from({ length: 60_000 }, (_, n): Row => {
      return {
        at: START + BigInt(n) * MS + (n > 30_000 ? 10_000n * MS : 0n),
        transaction: 'long',
        tid: 1,
        duration: 1000n,
      };
    }),
  ];

  test('a change is measured although the layout of the one before is finished meanwhile', async () => {
    const { sessions, clock } = newSessions(120_000, LONG);
    const [fast, long] = [await make(sessions, 'dense', { speed_factor: 100 }), await make(sessions, 'long')];
    await Promise.all([fast.play(), long.play()]);
    await clock.pass(100n * MS);
    await Promise.all([long.change({ maxGapNs: 5_000_000 }), long.change({ maxGapNs: 2_000_000 })]);
    expect(long.view()).toMatchObject({ state: 'playing', max_gap_ns: 2n * MS });
    await expect(
      Promise.all([long.change({ maxGapNs: 3_000_000 }), long.change({ maxGapNs: 0 })]),
    ).rejects.toMatchObject(REFUSED);
    expect(long.view()).toMatchObject({ state: 'playing', max_gap_ns: 3n * MS });
  });

  test('what took too long to measure, or is of a session that ends, is not computed any further', async () => {
    const passes: Promise<number>[] = [];
    const { sessions, clock } = newSessions(120_000, LONG, (planner) => noting(planner, passes));
    const [fast, long] = [await make(sessions, 'dense', { speed_factor: 100 }), await make(sessions, 'long')];
    await Promise.all([fast.play(), long.play()]);
    await clock.pass(100n * MS);
    const change = refusalOf(long.change({ maxGapNs: 5_000_000 }));
    while (passes.length === 0) await clock.pass(MS);
    // The planner does nothing meanwhile.
    clock.advance(1001n * MS);
    await expect(passes[0]).rejects.toMatchObject({ name: 'AbortError' });
    expect(await change).toMatchObject(REFUSED);

    const other = refusalOf(long.change({ maxGapNs: 5_000_000 }));
    while (passes.length === 1) await clock.pass(MS);
    long.close('deleted');
    await expect(passes[1]).rejects.toMatchObject({ code: 'session_not_found' });
    expect(await other).toMatchObject({ code: 'session_not_found' });
  });
});

/** The reason, for a test that awaits something else first. */
function refusalOf(change: Promise<unknown>): Promise<unknown> {
  return change.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** Notes each pass through a plan that measures its end. */
function noting(planner: Planner, passes: Promise<number>[]): Planner {
  return {
    ...planner,
    async open(request, onOutline) {
      const plan = await planner.open(request, onOutline);
      return {
        ...plan,
        get outline() {
          return plan.outline;
        },
        endWith(...asked) {
          const pass = plan.endWith(...asked);
          passes.push(pass);
          return pass;
        },
      };
    },
  };
}
