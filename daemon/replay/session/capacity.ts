/** Admission control: limits the event rate of all playing sessions together. */
import { availableParallelism } from 'node:os';
import { Problem } from '../../base/problem.ts';
import { nativeClock } from '../clock/native_player.ts';
import type { KeptSession } from '../kept/kept_session.ts';
import type { Outline } from '../plan/plan.ts';
import type { State } from '../transitions.ts';
import { type ComingChange, layoutOf } from './session_options.ts';
import type { SessionSettings } from './session_view.ts';

type Layout = Pick<SessionSettings, 'extraLatencyNs' | 'maxGapNs' | 'only'>;

const NS_PER_SECOND = 1e9;
/** Cost of starting a round, expressed in events: a state frame is sent, and the first page is read again. */
const ROUND_EVENTS = 100;

/** Size of a frame as most events have it. */
const FRAME_BYTES = 700;
/** The CPU time that an event takes in all threads of the daemon, in that of sending its frame and receiving it. */
const EVENT_COST = 4;
/** The part of all CPUs that replays may take. */
const CPU_SHARE = 0.75;
const RATE_STEP = 10_000;

/** Measures how many events per second this host can play, in steps of 10,000; it takes some milliseconds. */
export function measuredRate(): number {
  const sendingNs = nativeClock.measureSending(new Uint8Array(FRAME_BYTES));
  if (sendingNs === undefined) return RATE_STEP;
  const rate = (availableParallelism() * CPU_SHARE * NS_PER_SECOND) / (sendingNs * EVENT_COST);
  return Math.max(Math.floor(rate / RATE_STEP), 1) * RATE_STEP;
}

export interface PlayingSession {
  readonly state: State;
  /** The change that is being applied. */
  readonly coming: ComingChange | undefined;
  /** When the last event ends if all are laid out with the latest settings, if that was computed. */
  readonly layoutEndNs: number | undefined;
  kept(): Pick<KeptSession, 'outline' | 'settings'>;
}

/** The events that a session plays per second; without looping, that is never more than its event count. */
function eventsPerSecond(session: PlayingSession, change: ComingChange = {}): number {
  const { outline, settings } = session.kept();
  const { eventCount } = outline;
  const { speedFactor = settings.speedFactor, loop = settings.loop } = change;
  const layout = layoutOf(settings, change);
  const endNs = layout ? change.endNs : session.layoutEndNs;
  const shortestNs = Math.max(endNs ?? lowerBoundNs(outline, settings, layout), 1);
  const roundsPerSecond = (NS_PER_SECOND / shortestNs) * speedFactor;
  return loop ? (eventCount + ROUND_EVENTS) * roundsPerSecond : Math.min(eventCount * roundsPerSecond, eventCount);
}

/** The duration of the replay, or a lower bound of it while events are or will be laid out again. */
function lowerBoundNs(outline: Outline, settings: Layout, coming: Layout | undefined): number {
  const { eventCount, recordedDurationNs, survey, latency } = outline;
  if (survey && latency.length === 1 && !coming) return survey.endNs;
  const { maxGapNs } = coming ?? settings;
  const recordedNs = maxGapNs === null ? recordedDurationNs : 0;
  // How much another limit cuts is not known before events are laid out with it.
  const hasOther = latency.some(
    (each) => (each.maxGapNs === undefined ? settings.maxGapNs : each.maxGapNs) !== maxGapNs,
  );
  if (!survey || hasOther) return recordedNs;
  const mostLatencyNs = Math.max(...latency.map((each) => each.extraLatencyNs));
  return Math.max(survey.endNs - eventCount * mostLatencyNs, recordedNs);
}

type Playing = ReadonlyMap<string, { session: PlayingSession | undefined }>;

/**
 * Throws `replay_capacity` when all sessions together would play more events per second than `max`. A session that
 * plays alone has no limit, as it delays no other: one that exceeds `max` gets what is left by the others, which have
 * half of it for themselves. A change to a lower rate is always admitted.
 */
export function admit(held: Playing, sessionId: string, max: number, change?: ComingChange): void {
  let [others, own, wanted] = [0, 0, 0];
  for (const [id, { session }] of held) {
    if (!session || (id !== sessionId && session.state !== 'playing')) continue;
    const now = session.state === 'playing' ? eventsPerSecond(session) : 0;
    if (id !== sessionId) others += shareOf(Math.max(now, eventsPerSecond(session, session.coming)), max);
    else [own, wanted] = [now, eventsPerSecond(session, change)];
  }
  if (others === 0 || wanted <= own || others + wanted <= max) return;
  const [asked, playing] = [wanted, others].map((rate) => Math.ceil(rate).toLocaleString('en'));
  const detail =
    `the session would play ${asked} events a second, and others play ${playing}; all together may play ` +
    `${max.toLocaleString('en')} (--replay-rate-max): lower its speed_factor, pause others, or wait until they end`;
  throw new Problem('replay_capacity', detail);
}

/** What a session takes from the others. The player serves them in turn, however many events of one are overdue. */
function shareOf(rate: number, max: number): number {
  return rate > max ? max / 2 : rate;
}
