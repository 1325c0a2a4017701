/** Detects when the time line of a session changes. */

/** The fields of a session that determine its time line. */
export interface LaidOut {
  state: string;
  extra_latency_ns: number | bigint;
  timeout_ns?: number | bigint | null;
  max_gap_ns?: number | bigint | null;
  /** Lists that determine which events get the latency. */
  only?: object;
  event_index: number;
  event_count: number;
}

/** A frame of a session's stream. */
export interface LayoutFrame {
  kind: string;
  /** The session; present in a frame of the kind `state`. */
  session?: LaidOut;
}

/**
 * Returns a function that returns whether the time line must be read again. It must be called with every frame of a
 * session, in order.
 */
export function createLayoutWatch(created: LaidOut): (frame: LayoutFrame) => boolean {
  let before = created;
  /**
   * Whether some events may be laid out with earlier settings than others. A seek ends this: it lays out all events
   * with the latest settings.
   */
  let isMixed = false;
  /** Whether frames were missed that may have reported a change. */
  let hasMissed = false;
  return (frame) => {
    if (frame.kind === 'gap' || frame.kind === 'lost') hasMissed = true;
    const { session } = frame;
    if (!session) return false;
    const isChanged = buildSettingsKey(session) !== buildSettingsKey(before);
    const isAnew = isChanged || hasMissed || (isMixed && mayHaveSought(before, session));
    if (isChanged) isMixed = isOnTheWay(session);
    else if (hasMissed) isMixed = true;
    hasMissed = false;
    before = session;
    return isAnew;
  };
}

function buildSettingsKey({ extra_latency_ns, timeout_ns, max_gap_ns, only = {} }: LaidOut): string {
  return [extra_latency_ns, timeout_ns ?? null, max_gap_ns ?? null, JSON.stringify(only)].join();
}

/**
 * Returns whether a latency set in this state applies to only some events. A latency set at the start or at the end
 * applies to all events. A session that plays may already have left the start.
 */
function isOnTheWay({ state, event_index, event_count }: LaidOut): boolean {
  return state === 'playing' || (event_index > 0 && event_index < event_count);
}

/**
 * Returns whether a seek may have happened between the two states. Frames do not name the command that caused them, so
 * only a pause or a resume excludes a seek.
 */
function mayHaveSought(before: LaidOut, { state }: LaidOut): boolean {
  return state === before.state || state === 'finished' || before.state === 'finished';
}
