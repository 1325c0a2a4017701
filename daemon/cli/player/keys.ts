/** Maps a key to an action, depending on the state of the session. This file performs no I/O. */
import { EXTRA_LATENCY_NS_MAX, SPEED_FACTOR_MAX, SPEED_FACTOR_MIN } from '../../contract/replay_requests.ts';
import type { ReplaySession, SessionRequest } from './remote_session.ts';

/** A key as reported by node:readline: its name, or the character that it produces. */
export interface KeyPress {
  name?: string | undefined;
  sequence?: string | undefined;
  ctrl?: boolean;
  shift?: boolean;
}

export type Action =
  | { kind: 'send'; request: SessionRequest }
  | { kind: 'zoom in' | 'zoom out' | 'help' | 'quit' | 'interrupt' };

export interface KeyContext {
  session: Pick<ReplaySession, 'state' | 'speed_factor' | 'extra_latency_ns' | 'event_index' | 'event_count'>;
  /** Current position on the time line of the replay. */
  positionNs: bigint;
  durationNs: bigint;
}

/** Entries of the help line at the bottom of the screen. Line breaks are only between entries. */
export const KEYS: readonly string[] = [
  'space pause/play',
  'left/right step (playing: 1 %)',
  'shift ten times that',
  'PgUp/PgDn 10 %',
  'Home/End',
  '+/- speed',
  'l/L latency',
  'z/Z zoom',
  'q quit',
];

export const KEYS_HELP = `Keys of the player:
  space              pause, play on; at the end: play again
  left, right        one event back or forward; while playing, 1 % of the replay
  shift+left, right  ten times as far
  PgUp, PgDn         10 % of the replay back or forward
  Home, End          to the start, to the end
  +, -               twice as fast, half as fast; Backspace: as recorded
  l, L               more, less extra latency for the events to come: 0, 100us, 200us, 500us, 1ms ... 1h
  z, Z               a shorter, a longer part of the time line
  ?                  keys on the bottom line, on and off
  q, Ctrl-C          stop and leave
`;

const STEPS_WITH_SHIFT = 10;
/** A key moves the position by the replay's duration divided by this number. */
const SEEK_DIVISOR = 100n;
const FAR_SEEK_DIVISOR = 10n;
/** Smallest extra latency above 0 that a key selects. */
const LATENCY_NS_MIN = 100_000n;

export function chooseAction(key: KeyPress, place: KeyContext): Action | null {
  const name = key.name ?? key.sequence;
  if (key.ctrl) return name === 'c' ? { kind: 'interrupt' } : null;
  if (name === 'q') return { kind: 'quit' };
  if (key.sequence === '?') return { kind: 'help' };
  if (name === 'z') return { kind: key.shift ? 'zoom out' : 'zoom in' };
  const request = place.session.state === 'stopped' ? null : chooseRequest(key, place);
  return request && { kind: 'send', request };
}

function chooseRequest(key: KeyPress, place: KeyContext): SessionRequest | null {
  const { session, durationNs } = place;
  switch (key.name ?? key.sequence) {
    case 'space':
      return { command: session.state === 'playing' ? 'pause' : 'play' };
    case 'left':
      return buildArrowRequest(-1, key, place);
    case 'right':
      return buildArrowRequest(1, key, place);
    case 'pageup':
      return seekBy(-durationNs / FAR_SEEK_DIVISOR, place);
    case 'pagedown':
      return seekBy(durationNs / FAR_SEEK_DIVISOR, place);
    case 'home':
      return { seek: { event_index: 0 } };
    case 'end':
      return { seek: { event_index: session.event_count } };
    case '+':
    case '=':
      return buildSpeedRequest(session.speed_factor * 2, place);
    case '-':
      return buildSpeedRequest(session.speed_factor / 2, place);
    case 'backspace':
      return buildSpeedRequest(1, place);
    case 'l':
      return buildLatencyRequest(key.shift ? -1 : 1, place);
    default:
      return null;
  }
}

function buildArrowRequest(direction: 1 | -1, { shift }: KeyPress, place: KeyContext): SessionRequest | null {
  const { session, durationNs } = place;
  if (session.state === 'playing') {
    const ns = durationNs / (shift ? FAR_SEEK_DIVISOR : SEEK_DIVISOR);
    return seekBy(BigInt(direction) * ns, place);
  }
  const left = direction > 0 ? session.event_count - session.event_index : session.event_index;
  // There is no event in this direction, so the daemon would refuse the request or send nothing.
  if (left === 0) return null;
  return { step: direction * (shift ? STEPS_WITH_SHIFT : 1) };
}

function seekBy(ns: bigint, { positionNs, durationNs }: KeyContext): SessionRequest {
  const wanted = positionNs + ns;
  const clamped = wanted < 0n ? 0n : wanted > durationNs ? durationNs : wanted;
  return { seek: { position_ns: clamped } };
}

function buildSpeedRequest(factor: number, { session }: KeyContext): SessionRequest | null {
  const speed_factor = Math.min(Math.max(factor, SPEED_FACTOR_MIN), SPEED_FACTOR_MAX);
  return speed_factor === session.speed_factor ? null : { change: { speed_factor } };
}

/** Builds a request for the next latency step. The current latency may be between two steps. */
function buildLatencyRequest(direction: 1 | -1, { session }: KeyContext): SessionRequest | null {
  const nowNs = BigInt(session.extra_latency_ns);
  const steps = listLatencyStepsNs();
  const step = direction > 0 ? steps.find((ns) => ns > nowNs) : steps.findLast((ns) => ns < nowNs);
  return step === undefined ? null : { change: { extra_latency_ns: step } };
}

/** Returns the latency steps: 0, 100us, 200us, 500us, 1ms, 2ms, 5ms and so on, up to the maximum. */
function listLatencyStepsNs(): bigint[] {
  const steps = [0n];
  for (let decade = LATENCY_NS_MIN; decade < EXTRA_LATENCY_NS_MAX; decade *= 10n)
    steps.push(decade, 2n * decade, 5n * decade);
  return [...steps.filter((ns) => ns < EXTRA_LATENCY_NS_MAX), EXTRA_LATENCY_NS_MAX];
}
