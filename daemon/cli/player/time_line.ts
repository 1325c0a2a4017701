/**
 * The threads of a replay and their busy times, from which the lanes are drawn. Times are plain numbers, which are
 * exact enough for drawing.
 */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { parseJson } from '../../base/exact_json.ts';
import { callDaemon, readLines } from '../client/connection.ts';
import type { ExactPlayedEvent, ReplaySession } from './remote_session.ts';

export interface PlayedThread {
  node: string;
  tid: number;
  /** Latest name of the thread. */
  comm: string;
}

export interface CallMark {
  /** Index of the thread in `PlayedThreads.list`. */
  thread: number;
  /** Start on the replay's time line. */
  startNs: number;
  durationNs: number;
  failed: boolean;
  afterTimeout: boolean;
}

/** Maximum number of events that are read ahead. Events after these are drawn only when they are played. */
export const MARKS_AHEAD_MAX = 20_000;

/** An event with its times on the session's time line. */
type ScheduledEvent = ApiEvent & {
  replay_offset_ns: number | bigint;
  replay_duration_ns: number | bigint;
  after_timeout: boolean;
};

export interface PlayedThreads {
  readonly list: PlayedThread[];
  findOrAddPlace(event: Pick<ApiEvent, 'node' | 'tid' | 'comm'>): number;
}

export function createThreads(): PlayedThreads {
  const list: PlayedThread[] = [];
  const places = new Map<string, number>();
  return {
    list,
    findOrAddPlace({ node, tid, comm }) {
      const key = `${tid} ${node}`;
      const place = places.get(key) ?? list.push({ node, tid, comm }) - 1;
      places.set(key, place);
      list[place]!.comm = comm;
      return place;
    },
  };
}

export function buildMark(threads: PlayedThreads, { replay, ...event }: ExactPlayedEvent): CallMark {
  return {
    thread: threads.findOrAddPlace(event as ApiEvent),
    startNs: Number(replay.offset_ns),
    durationNs: Number(replay.duration_ns),
    failed: event.error !== null,
    afterTimeout: replay.after_timeout,
  };
}

/** Calls `onMark` for the first MARKS_AHEAD_MAX events on the session's current time line. */
export async function readAhead(
  url: string,
  session: ReplaySession,
  threads: PlayedThreads,
  signal: AbortSignal,
  onMark: (mark: CallMark, index: number) => void,
): Promise<void> {
  const path = `/api/replay/sessions/${session.session_id}/timeline`;
  const lines = readLines(await callDaemon(url, { path, accept: 'application/x-ndjson', signal }));
  let index = 0;
  for await (const line of lines) {
    const { replay_offset_ns, replay_duration_ns, after_timeout, ...event } = parseJson(line) as ScheduledEvent;
    const mark = {
      thread: threads.findOrAddPlace(event as ApiEvent),
      startNs: Number(replay_offset_ns),
      durationNs: Number(replay_duration_ns),
      failed: event.error !== null,
      afterTimeout: after_timeout,
    };
    // After an abort, lines may still be in a buffer.
    if (signal.aborted) return;
    onMark(mark, index);
    if (++index === MARKS_AHEAD_MAX) return;
  }
}
