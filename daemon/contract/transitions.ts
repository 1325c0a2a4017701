/** The state machine of a session: the state to which each command leads, or null if the command is refused. */
import { Problem } from '../base/problem.ts';

export const STATES = ['ready', 'playing', 'paused', 'finished', 'stopped'] as const;
export type SessionState = (typeof STATES)[number];

export const TRANSITIONS = {
  play: { ready: 'playing', playing: 'playing', paused: 'playing', finished: 'playing', stopped: null },
  pause: { ready: null, playing: 'paused', paused: 'paused', finished: null, stopped: null },
  seek: { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'paused', stopped: null },
  step: { ready: 'paused', playing: null, paused: 'paused', finished: null, stopped: null },
  step_back: { ready: 'paused', playing: null, paused: 'paused', finished: 'paused', stopped: null },
  change: { ready: 'ready', playing: 'playing', paused: 'paused', finished: 'finished', stopped: null },
  stop: { ready: 'stopped', playing: 'stopped', paused: 'stopped', finished: 'stopped', stopped: 'stopped' },
} as const satisfies Record<string, Record<SessionState, SessionState | null>>;
export type Command = keyof typeof TRANSITIONS;

const NAMES: Partial<Record<Command, string>> = { step_back: 'step' };

/** Returns the next state, or throws a Problem (HTTP 409) that names the state and the command. */
export function computeNextState(state: SessionState, command: Command): SessionState {
  const next = TRANSITIONS[command][state];
  if (next) return next;
  throw new Problem('invalid_transition', `a session that is ${state} cannot ${NAMES[command] ?? command}`);
}
