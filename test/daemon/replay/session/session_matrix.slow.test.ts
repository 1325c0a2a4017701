/** Tests every command in every state, once and twice, against the API's table of transitions. */
import type { Problem } from '../../../../daemon/base/problem.ts';
import { type SessionState, STATES } from '../../../../daemon/contract/transitions.ts';
import type { Session } from '../../../../daemon/replay/session/session.ts';
import { MS, newSession } from '../fixture.ts';

type Act = (session: Session) => unknown;

const COMMANDS: Record<string, Act> = {
  play: (session) => session.play(),
  'play until the answer': (session) => session.play('replay_duration_ns'),
  pause: (session) => session.pause(),
  seek: (session) => session.seek({ position_ns: 2n * MS }),
  'seek past the end': (session) => session.seek({ position_ns: 10n ** 18n }),
  'step forward': (session) => session.step(1),
  'step backward': (session) => session.step(-1),
  'change speed': (session) => session.change({ speedFactor: 2 }),
  'change latency': (session) => session.change({ extraLatencyNs: 1_000_000 }),
  'change timeout': (session) => session.change({ timeoutNs: 5n * MS }),
  'change gaps': (session) => session.change({ maxGapNs: 100_000 }),
  'change only': (session) => session.change({ extraLatencyNs: 50_000, only: { services: ['none'] } }),
  stop: (session) => session.stop(),
};

/** Commands that lead from `ready` to each state. */
const ROADS: Record<SessionState, Act> = {
  ready: () => {},
  playing: (session) => session.play(),
  paused: async (session) => {
    await session.play();
    session.pause();
  },
  finished: (session) => session.seek({ position_ns: 10n ** 18n }),
  stopped: (session) => session.stop(),
};

const R = 409;
const TABLE: Record<string, Record<SessionState, SessionState | 409>> = {
  play: { ready: 'playing', playing: 'playing', paused: 'playing', finished: 'playing', stopped: R },
  'play until the answer': {
    ...{ ready: 'playing', playing: 'playing', paused: 'playing', finished: 'playing', stopped: R },
  },
  pause: { ready: R, playing: 'paused', paused: 'paused', finished: R, stopped: R },
  seek: { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'paused', stopped: R },
  'seek past the end': { ready: 'finished', playing: 'finished', paused: 'finished', finished: 'finished', stopped: R },
  'step forward': { ready: 'paused', playing: R, paused: 'paused', finished: R, stopped: R },
  'step backward': { ready: 'paused', playing: R, paused: 'paused', finished: 'paused', stopped: R },
  'change speed': { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'finished', stopped: R },
  'change latency': { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'finished', stopped: R },
  'change timeout': { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'finished', stopped: R },
  'change gaps': { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'finished', stopped: R },
  'change only': { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'finished', stopped: R },
  stop: { ready: 'stopped', playing: 'stopped', paused: 'stopped', finished: 'stopped', stopped: 'stopped' },
};

const CASES = Object.keys(COMMANDS).flatMap((command) => STATES.map((state) => [command, state] as const));

/** Runs a command and checks the session's state against the table. */
async function expectStep(session: Session, command: string): Promise<void> {
  const from = session.state;
  const expected = TABLE[command]![from];
  if (expected !== R) {
    await COMMANDS[command]!(session);
    expect(session.state).toBe(expected);
    return;
  }
  const before = session.view();
  const refused = await refusal(() => COMMANDS[command]!(session));
  expect(refused.code).toBe('invalid_transition');
  expect(refused.message).toContain(from);
  expect(refused.message).toContain(command.split(' ')[0]!);
  expect(session.view()).toEqual(before);
}

async function refusal(act: () => unknown): Promise<Problem> {
  try {
    await act();
  } catch (error) {
    return error as Problem;
  }
  throw new Error('was not refused');
}

test.each(CASES)('%s when %s, twice', async (command, state) => {
  const { session } = await newSession();
  await ROADS[state](session);
  expect(session.state).toBe(state);
  await expectStep(session, command);
  await expectStep(session, command);
});

test.each(CASES)('%s when %s, and then every other command', async (command, state) => {
  for (const next of Object.keys(COMMANDS)) {
    const { session, clock } = await newSession();
    await ROADS[state](session);
    await expectStep(session, command);
    await clock.pass(MS / 3n);
    await expectStep(session, next);
  }
});

test('a command without effect leaves position, clock and stream alone', async () => {
  const { session, clock } = await newSession();
  await session.play();
  await clock.pass(3n * MS + 1n);
  const { updated_at, position_ns } = session.view();
  await session.play();
  expect(session.view()).toMatchObject({ updated_at, position_ns });
  session.pause();
  const paused = session.view();
  await clock.pass(5n * MS);
  session.pause();
  expect(session.view()).toEqual(paused);
});
