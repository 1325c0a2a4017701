/** When the time line of a session is another one than before. */
import type { ReplaySession, SessionFrame } from './remote_session.ts';

/** Given every frame of a session in turn, says behind which of them all is to be read again. */
export function newLayoutWatch(created: ReplaySession): (frame: SessionFrame) => boolean {
  let before = created;
  /** Some events have another latency than others: a seek lays all out with that of the last. */
  let isMixed = false;
  /** What was missed may have been a change. */
  let hasMissed = false;
  return (frame) => {
    if (frame.kind === 'gap' || frame.kind === 'lost') hasMissed = true;
    if (frame.kind !== 'state') return false;
    const { session } = frame;
    const isChanged = BigInt(session.extra_latency_ns) !== BigInt(before.extra_latency_ns);
    const isAnew = isChanged || hasMissed || (isMixed && mayHaveSought(before, session));
    if (isChanged) isMixed = isOnTheWay(session);
    else if (hasMissed) isMixed = true;
    hasMissed = false;
    before = session;
    return isAnew;
  };
}

/** A latency set at the start or at the end is that of all events. While it plays, it may be behind the start already. */
function isOnTheWay({ state, event_index, event_count }: ReplaySession): boolean {
  return state === 'playing' || (event_index > 0 && event_index < event_count);
}

/** All but a pause, and a play that goes on; no frame says by which command it came. */
function mayHaveSought(before: ReplaySession, { state }: ReplaySession): boolean {
  return state === before.state || state === 'finished' || before.state === 'finished';
}
