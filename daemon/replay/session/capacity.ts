/** Admission control: limits the event rate of all playing sessions together. */
import { Problem } from '../../problem.ts';
import type { KeptSession } from '../kept/kept_session.ts';
import type { Outline } from '../plan/plan.ts';
import type { State } from '../transitions.ts';
import type { SessionChange } from './session_options.ts';
import type { SessionSettings } from './session_view.ts';

const NS_PER_SECOND = 1e9;
/** Cost of starting a round, expressed in events: a state frame is sent, and the first page is read again. */
const ROUND_EVENTS = 100;

/** The events that a session plays per second; without looping, that is never more than its event count. */
export function eventsPerSecond(outline: Outline, settings: SessionSettings, change: SessionChange = {}): number {
  const { eventCount } = outline;
  const { speedFactor = settings.speedFactor, loop = settings.loop } = change;
  const roundsPerSecond = (NS_PER_SECOND / shortestNs(outline, settings, change)) * speedFactor;
  return loop ? (eventCount + ROUND_EVENTS) * roundsPerSecond : Math.min(eventCount * roundsPerSecond, eventCount);
}

/** The duration of the replay, or a lower bound of it while events are or will be laid out again. */
function shortestNs(outline: Outline, { maxGapNs, extraLatencyNs }: SessionSettings, change: SessionChange): number {
  const { eventCount, recordedDurationNs, survey, latency } = outline;
  const isFaster = (change.extraLatencyNs ?? extraLatencyNs) < extraLatencyNs;
  if (survey && latency.length === 1 && !isFaster) return Math.max(survey.endNs, 1);
  const mostLatencyNs = Math.max(...latency.map((each) => each.extraLatencyNs));
  const withoutLatencyNs = survey ? survey.endNs - eventCount * mostLatencyNs : 0;
  return Math.max(withoutLatencyNs, maxGapNs === null ? recordedDurationNs : 0, 1);
}

export interface PlayingSession {
  readonly state: State;
  /** The change that is being applied. */
  readonly coming: SessionChange | undefined;
  kept(): Pick<KeptSession, 'outline' | 'settings'>;
}

type Playing = ReadonlyMap<string, { session: PlayingSession | undefined }>;

/**
 * Throws `replay_capacity` when all sessions together would play more events per second than `max`. A session that
 * plays alone has no limit, as it delays no other; and a change to a lower rate is always admitted.
 */
export function admit(held: Playing, sessionId: string, max: number, change?: SessionChange): void {
  let [others, own, wanted] = [0, 0, 0];
  for (const [id, { session }] of held) {
    if (!session || (id !== sessionId && session.state !== 'playing')) continue;
    const { outline, settings } = session.kept();
    const now = session.state === 'playing' ? eventsPerSecond(outline, settings) : 0;
    if (id !== sessionId) others += Math.max(now, eventsPerSecond(outline, settings, session.coming));
    else [own, wanted] = [now, eventsPerSecond(outline, settings, change)];
  }
  if (others === 0 || wanted <= own || others + wanted <= max) return;
  const [asked, playing] = [wanted, others].map((rate) => Math.ceil(rate).toLocaleString('en'));
  const detail =
    `the session would play ${asked} events a second, and others play ${playing}; all together may play ` +
    `${max.toLocaleString('en')} (--replay-rate-max): lower its speed_factor, pause others, or wait until they end`;
  throw new Problem('replay_capacity', detail);
}
