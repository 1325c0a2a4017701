/** Every command in every state, once and twice, with what comes of it; the table of the API. */
import type { Problem } from '../../daemon/errors.ts';
import type { Session } from '../../daemon/replay/session.ts';
import { STATES, type State } from '../../daemon/replay/transitions.ts';
import { MS, newSession } from './fixture.ts';

type Act = (session: Session) => unknown;

const COMMANDS: Record<string, Act> = {
  play: (session) => session.play(),
  pause: (session) => session.pause(),
  seek: (session) => session.seek({ position_ns: 2n * MS }),
  'seek past the end': (session) => session.seek({ position_ns: 10n ** 18n }),
  'step forward': (session) => session.step(1),
  'step backward': (session) => session.step(-1),
  stop: (session) => session.stop(),
};

/** From `ready` to each state. */
const ROADS: Record<State, Act> = {
  ready: () => {},
  playing: (session) => session.play(),
  paused: (session) => {
    session.play();
    session.pause();
  },
  finished: (session) => session.seek({ position_ns: 10n ** 18n }),
  stopped: (session) => session.stop(),
};

const R = 409;
const TABLE: Record<string, Record<State, State | 409>> = {
  play: { ready: 'playing', playing: 'playing', paused: 'playing', finished: 'playing', stopped: R },
  pause: { ready: R, playing: 'paused', paused: 'paused', finished: R, stopped: R },
  seek: { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'paused', stopped: R },
  'seek past the end': { ready: 'finished', playing: 'finished', paused: 'finished', finished: 'finished', stopped: R },
  'step forward': { ready: 'paused', playing: R, paused: 'paused', finished: R, stopped: R },
  'step backward': { ready: 'paused', playing: R, paused: 'paused', finished: 'paused', stopped: R },
  stop: { ready: 'stopped', playing: 'stopped', paused: 'stopped', finished: 'stopped', stopped: 'stopped' },
};

const CASES = Object.keys(COMMANDS).flatMap((command) => STATES.map((state) => [command, state] as const));

/** Where the table takes the state, checked on the session. */
function expectStep(session: Session, command: string): void {
  const from = session.state;
  const expected = TABLE[command]![from];
  if (expected !== R) {
    COMMANDS[command]!(session);
    expect(session.state).toBe(expected);
    return;
  }
  const before = session.view();
  const refused = refusal(() => COMMANDS[command]!(session));
  expect(refused.code).toBe('invalid_transition');
  expect(refused.message).toContain(from);
  expect(refused.message).toContain(command.split(' ')[0]!);
  expect(session.view()).toEqual(before);
}

function refusal(act: () => unknown): Problem {
  try {
    act();
  } catch (error) {
    return error as Problem;
  }
  throw new Error('was not refused');
}

test.each(CASES)('%s when %s, twice', async (command, state) => {
  const { session } = await newSession();
  ROADS[state](session);
  expect(session.state).toBe(state);
  expectStep(session, command);
  expectStep(session, command);
});

test.each(CASES)('%s when %s, and then every other command', async (command, state) => {
  for (const next of Object.keys(COMMANDS)) {
    const { session, clock } = await newSession();
    ROADS[state](session);
    expectStep(session, command);
    clock.advance(MS / 3n);
    expectStep(session, next);
  }
});

test('a command without effect leaves position, clock and stream alone', async () => {
  const { session, clock } = await newSession();
  session.play();
  clock.advance(3n * MS + 1n);
  const { updated_at, position_ns } = session.view();
  session.play();
  expect(session.view()).toMatchObject({ updated_at, position_ns });
  session.pause();
  const paused = session.view();
  clock.advance(5n * MS);
  session.pause();
  expect(session.view()).toEqual(paused);
});
