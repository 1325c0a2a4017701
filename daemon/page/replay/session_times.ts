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

/** Where the clock of a session that plays will stand still, nanoseconds; far away while that is not known. */
export function playsTo({
  until,
  replay_duration_ns,
  replay_end_ns,
}: Pick<Session, 'until' | 'replay_duration_ns' | 'replay_end_ns'>): number {
  return Number((until && replay_duration_ns) ?? replay_end_ns ?? Number.MAX_SAFE_INTEGER);
}

/** Whether a session is paused exactly where its caller's wait ends, and data is written back after it. */
export function isAtOwnEnd(session: Pick<Session, 'state' | 'position_ns' | 'replay_duration_ns' | 'replay_end_ns'>) {
  const { state, position_ns, replay_duration_ns, replay_end_ns } = session;
  if (state !== 'paused' || !replay_duration_ns || replay_end_ns === null) return false;
  return Number(position_ns) === Number(replay_duration_ns) && Number(replay_duration_ns) < Number(replay_end_ns);
}
