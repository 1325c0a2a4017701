/** What playing sessions ask of the daemon together. */
import { Problem } from '../errors.ts';
import type { Outline } from './plan/plan.ts';
import type { Session } from './session.ts';
import type { SessionChange } from './session_options.ts';
import type { SessionSettings } from './session_view.ts';

const NS_PER_SECOND = 1e9;

/** Events that a session plays in a second. Of one that does not begin again: at most all that it has. */
export function eventsPerSecond(outline: Outline, settings: SessionSettings, change: SessionChange = {}): number {
  const { eventCount, recordedDurationNs, survey } = outline;
  const { speedFactor = settings.speedFactor, loop = settings.loop } = change;
  const wholeNs = Math.max(survey?.endNs ?? recordedDurationNs, 1);
  const rate = (eventCount / wholeNs) * NS_PER_SECOND * speedFactor;
  return loop ? rate : Math.min(rate, eventCount);
}

type Playing = ReadonlyMap<string, { session: Pick<Session, 'state' | 'kept'> | undefined }>;

/**
 * Throws `replay_capacity` when all would play more together than `max`. One that plays alone may play as fast as it
 * can, as it holds up nobody else; and one that is to play slower than now always may.
 */
export function admit(held: Playing, sessionId: string, max: number, change?: SessionChange): void {
  let [others, own, wanted] = [0, 0, 0];
  for (const [id, { session }] of held) {
    if (!session || (id !== sessionId && session.state !== 'playing')) continue;
    const { outline, settings, state } = session.kept();
    if (id !== sessionId) others += eventsPerSecond(outline, settings);
    else wanted = eventsPerSecond(outline, settings, change);
    if (id === sessionId && state === 'playing') own = eventsPerSecond(outline, settings);
  }
  if (others === 0 || wanted <= own || others + wanted <= max) return;
  const [asked, playing] = [wanted, others].map((rate) => Math.ceil(rate).toLocaleString('en'));
  const detail =
    `the session would play ${asked} events a second, and others play ${playing}; all together may play ` +
    `${max.toLocaleString('en')} (--replay-rate-max): lower its speed_factor, pause others, or wait until they end`;
  throw new Problem('replay_capacity', detail);
}
