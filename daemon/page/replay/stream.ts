/** The frames of a session's stream. */

import { parseJson } from '../../base/exact_json.ts';
import type { ExactInteger, Lateness, PlayedEvent, ReceivedSession } from '../../contract/received.ts';
import type { Daemon } from '../api/daemon.ts';
import { followStream } from '../api/event_stream.ts';
import type { Failure } from '../api/failure.ts';
import type { EventSourceMessage } from '../api/messages.ts';

/** Position of a session's clock, without its events. */
export interface PlayedPosition {
  position_ns: ExactInteger;
  event_index: number;
  lateness: Lateness;
}

export type Frame =
  | { kind: 'state'; id: number; session: ReceivedSession }
  | { kind: 'event'; id: number; played: PlayedEvent }
  /** Sent in place of events if there would be too many of them. */
  | { kind: 'position'; position: PlayedPosition }
  /** Frames were missed; `missed` is null if the daemon has restarted. */
  | { kind: 'gap'; missed: number | null }
  | { kind: 'end'; reason: string }
  /** The connection broke; another attempt follows. */
  | { kind: 'lost'; failure: Failure };

/** The frames of a stream: all events, or the position of the session 20 times a second. */
export type FrameChoice = 'events' | 'positions';

/** Codes of failures after which another request does not help. */
export const FINAL: ReadonlySet<string> = new Set([
  'unauthorized',
  'forbidden',
  'session_not_found',
  'invalid_parameter',
]);
/** End reasons after which the session does not resume. */
const OVER: ReadonlySet<string> = new Set(['stopped', 'failed', 'deleted', 'expired']);

/**
 * Calls `taken` with each frame of a session until the signal aborts or the session is gone. Resolves to the failure
 * that ended the stream, or to null. Frames that were sent while a connection was broken arrive on the next connection,
 * each only once. `lastId` is the id of the newest frame that the page has seen, such as `last_event_id` of an answer;
 * with null, the stream begins with the present state.
 */
export function follow(
  daemon: Daemon,
  sessionId: string,
  lastId: number | null,
  taken: (frame: Frame) => void,
  signal: AbortSignal,
  wanted: FrameChoice = 'events',
): Promise<Failure | null> {
  const stream = {
    path: () => `/api/replay/sessions/${sessionId}/events${wanted === 'positions' ? '?frames=state,position' : ''}`,
    lastId: lastId === null ? null : String(lastId),
    onMessage(message: EventSourceMessage) {
      const frame = parseFrame(message);
      if (frame) taken(frame);
      if (frame?.kind !== 'end') return undefined;
      return OVER.has(frame.reason) ? ('over' as const) : ('again' as const);
    },
    onLost: (failure: Failure) => taken({ kind: 'lost', failure }),
    final: FINAL,
  };
  return followStream(daemon, stream, signal);
}

function parseFrame({ id, event, data }: EventSourceMessage): Frame | null {
  if (event === 'state') return { kind: 'state', id: Number(id), session: parseJson(data) as ReceivedSession };
  if (event === 'event') return { kind: 'event', id: Number(id), played: parseJson(data) as PlayedEvent };
  if (event === 'position') return { kind: 'position', position: parseJson(data) as PlayedPosition };
  if (event === 'gap') return { kind: 'gap', missed: (parseJson(data) as { missed: number | null }).missed };
  if (event === 'end') return { kind: 'end', reason: String((parseJson(data) as { reason: string }).reason) };
  // A frame of another kind comes from a newer daemon and is ignored.
  return null;
}
