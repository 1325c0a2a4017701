/** What the settings of a session mean for its time line. */
import type { Session } from '../feed/answers.ts';

/** More events a second than these are not read one by one. */
export const RATE_MAX = 2000;

type Timed = Pick<Session, 'event_count' | 'speed_factor' | 'duration_ns' | 'replay_duration_ns' | 'replay_end_ns'>;

/** End of the last event on the session's time line; the recorded duration until it is known. */
export function endOf({ replay_end_ns, replay_duration_ns, duration_ns }: Omit<Timed, 'event_count'>): number {
  return Number(replay_end_ns ?? replay_duration_ns ?? duration_ns);
}

/** Events a second that a session plays in the mean of the time that its caller waits for. */
export function expectedRate(session: Timed): number {
  const ownNs = Number(session.replay_duration_ns ?? session.duration_ns);
  return (session.event_count / Math.max(1, ownNs || endOf(session))) * 1e9 * session.speed_factor;
}

/**
 * Where the caller's wait ends, if data is written back after it: a replay stops there, as the rest may take half a
 * minute. Null if nothing follows, or if it is not known yet.
 */
export function ownEndOf({ replay_duration_ns, replay_end_ns }: Timed): number | null {
  if (replay_duration_ns === null || replay_end_ns === null) return null;
  const [ownNs, endNs] = [Number(replay_duration_ns), Number(replay_end_ns)];
  return ownNs > 0 && ownNs < endNs ? ownNs : null;
}
