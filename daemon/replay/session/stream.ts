/**
 * Sends one session's frames to any number of viewers. A viewer is a position in the frame log, not a queue of its own:
 *
 *   log      41 42 43 44 45 46        newest: 46
 *   viewers     ^slow      ^          frames that a slow viewer has not received wait in the log; once the log has
 *                                     dropped them, the viewer gets a `gap` frame with the number it missed
 *
 * so a viewer that does not read costs only its socket's buffer, and delays no other.
 *
 * Frames of events are prepared ahead of their time, and the player's thread writes them itself to the sockets of the
 * viewers that have all others: the direct ones. One whose socket is full, or encrypted, gets its frames from here.
 */
import { Problem } from '../../base/problem.ts';
import { formatFrame, HEARTBEAT, RETRY_MS, type Sink } from '../../base/sse.ts';
import type { Track } from '../clock/player.ts';
import type { State } from '../transitions.ts';
import { createDirectViewers, type Viewer } from './direct_viewers.ts';
import { createFrameLog, type FrameLog, type KeptTotal } from './frames.ts';
import type { DueEvents } from './replayed_event.ts';
import { createWatchers, type Wanted, type WatchersOptions } from './watchers.ts';

/** Why a stream is over. After `finished` the session can play again, and a viewer that reconnects receives it. */
export type EndReason = 'finished' | 'stopped' | 'failed' | 'deleted' | 'expired' | 'shutdown';

/** Why no more frames follow for now; null while frames may follow. */
export function overBy(state: State, failure: string | null): EndReason | null {
  if (failure !== null) return 'failed';
  return state === 'finished' || state === 'stopped' ? state : null;
}

export const VIEWERS_MAX = 256;
/** Bytes that are written to a socket at once. */
const WRITE_BYTES_MAX = 64 * 1024;

export interface StreamOptions {
  /** The session as JSON. */
  describe: () => string;
  /** Why no more frames follow for now; null while frames may follow. */
  over: () => EndReason | null;
  keptTotal: KeptTotal;
  /** The first id is `idBase` + 1; lower ids belong to earlier streams of the session. */
  idBase?: number;
  track: Track;
  /** Takes everything into the log that was played. */
  catchUp: () => void;
  /** What watchers need, which want no events. */
  watching: Omit<WatchersOptions, 'describe'>;
}

export interface SessionStream {
  readonly viewerCount: number;
  /** Id of the newest frame that was taken into the log; `idBase` before the first. */
  readonly lastId: number;
  /** Appends a frame to the log; `flush` sends it. No frames may be prepared, and no viewer direct: see `recall`. */
  publish(kind: 'event' | 'state', json: string, events?: number): void;
  /** Prepares the frames of events that follow those prepared before: as many as its answer says. */
  prepare(events: DueEvents): { bytes: Buffer; count: number };
  /** Takes prepared frames into the log that were played. */
  played(count: number): void;
  /** Has the player write what it plays from now on, where it can. */
  goDirect(): void;
  /** Takes the viewers back from the player and forgets the frames that were not played. */
  recall(): void;
  /** Sends an `end` frame and ends the viewers' connections. */
  end(reason: EndReason): void;
  /** Sends what viewers lack, and gives those that lack nothing back to the player after `goDirect`. */
  flush(): void;
  /** Throws a Problem when there are VIEWERS_MAX viewers. */
  checkRoom(): void;
  /** `lastId` is the last id that the viewer received, by its own account; null for none. */
  join(sink: Sink, lastId: number | null): void;
  /** The same for a viewer that wants no events. Its stream begins with the current state. */
  watch(sink: Sink, lastId: number | null, wanted: Wanted): void;
  /** Whether an id can be one of this session's. */
  knows(id: number): boolean;
  toldAll(id: number): boolean;
  heartbeat(): void;
  close(reason: EndReason): void;
}

export function createStream(options: StreamOptions): SessionStream {
  const { describe, over, keptTotal, idBase = 0, track, catchUp, watching } = options;
  const log = createFrameLog(keptTotal, idBase);
  const viewers = new Set<Viewer>();
  const watchers = createWatchers({ ...watching, describe });
  const { takeBack, giveAway, lookAt } = createDirectViewers(track, log);
  /** The id of the last `end` frame. */
  let endedAt = 0;

  /** Whether the player writes to the sockets where it can. */
  let isDirect = false;

  function leave(viewer: Viewer): void {
    viewers.delete(viewer);
    viewer.sink.end();
  }

  function write(viewer: Viewer, frames: string): void {
    viewer.blocked = !viewer.sink.write(frames);
  }

  function flushTo(viewer: Viewer): void {
    if (viewer.direct) return;
    while (!viewer.blocked && viewer.lastId < log.lastId) viewer.blocked = !writeNext(log, viewer, describe);
    // This viewer has received everything up to the end. A viewer that joins after the end stays for the next run.
    if (viewer.lastId === endedAt && endedAt === log.lastId) leave(viewer);
  }

  function flush(): void {
    for (const viewer of viewers) flushTo(viewer);
    if (isDirect) goDirect();
  }

  function goDirect(): void {
    isDirect = true;
    let isOwn = false;
    for (const viewer of viewers) {
      giveAway(viewer);
      isOwn ||= !viewer.direct && !viewer.blocked;
    }
    track.setWakes(isOwn);
  }

  function recall(): void {
    isDirect = false;
    for (const viewer of viewers) takeBack(viewer);
    log.discard();
  }

  function end(reason: EndReason): void {
    log.append('end', JSON.stringify({ reason }));
    endedAt = log.lastId;
    flush();
    watchers.end(reason, endedAt);
  }

  return {
    get viewerCount() {
      return viewers.size + watchers.count;
    },
    get lastId() {
      return log.lastId;
    },
    publish(kind, json, events) {
      log.append(kind, json, events);
      if (kind === 'state') watchers.tell(json, log.lastId);
    },
    prepare: log.prepare,
    played(count) {
      log.commit(count);
      lookAt(viewers);
    },
    goDirect,
    recall,
    end,
    flush,
    // A viewer may have frames that the player has written and the log has not taken note of yet.
    knows(id) {
      catchUp();
      return Number.isSafeInteger(id) && id >= 0 && id <= log.lastId;
    },
    toldAll(id) {
      catchUp();
      return id === log.lastId;
    },
    checkRoom() {
      if (viewers.size + watchers.count < VIEWERS_MAX) return;
      throw new Problem('session_limit', `the session has ${VIEWERS_MAX} viewers already`);
    },
    join(sink, saidId) {
      // This catches up, so it comes before the place in the log that the state belongs to.
      const state = describe();
      // Frames of an earlier stream are lost, so the viewer gets a gap and the current state. 0 asks for all kept
      // frames.
      const isFromBefore = saidId !== null && saidId > 0 && saidId < idBase;
      const lastId = isFromBefore ? null : saidId === 0 ? idBase : saidId;
      const from = lastId ?? log.lastId;
      const events = from >= log.firstId - 1 ? log.eventsThrough(from) : null;
      const viewer: Viewer = { sink, lastId: from, events, blocked: false, direct: undefined };
      viewers.add(viewer);
      sink.on('close', () => {
        viewers.delete(viewer);
        if (viewer.direct) track.detach(viewer.direct.viewer);
        viewer.direct = undefined;
      });
      // A write may fail because the connection has just closed; `close` follows.
      sink.on('error', () => {});
      sink.on('drain', () => {
        viewer.blocked = false;
        if (!viewers.has(viewer)) return;
        // What the viewer lacks is written here, and not by the player while it holds its lock.
        catchUp();
        flushTo(viewer);
        if (isDirect) goDirect();
      });
      const gap = isFromBefore ? formatFrame('gap', JSON.stringify(unknownGap(saidId, log.lastId)), log.lastId) : '';
      write(viewer, `retry: ${RETRY_MS}\n\n${gap}${lastId === null ? formatFrame('state', state, log.lastId) : ''}`);
      const reason = over();
      if (lastId === null && reason) {
        write(viewer, formatFrame('end', JSON.stringify({ reason })));
        leave(viewer);
      } else if (viewer.lastId < log.lastId) flushTo(viewer);
      if (isDirect) goDirect();
    },
    watch(sink, lastId, wanted) {
      catchUp();
      // One that knows of the end stays for the next run.
      watchers.join(sink, wanted, log.lastId, lastId === log.lastId ? null : over());
    },
    heartbeat() {
      watchers.heartbeat();
      for (const viewer of viewers) takeBack(viewer);
      catchUp();
      for (const viewer of viewers) {
        if (viewer.lastId < log.lastId) flushTo(viewer);
        if (!viewer.blocked && viewers.has(viewer)) write(viewer, HEARTBEAT);
      }
      if (isDirect) goDirect();
    },
    close(reason) {
      recall();
      if (viewers.size + watchers.count > 0) end(reason);
      watchers.close();
      for (const viewer of viewers) {
        // The socket is full: waiting for the viewer to read could take forever.
        if (viewer.blocked) viewer.sink.destroy();
        else viewer.sink.end();
      }
      viewers.clear();
      log.clear();
    },
  };
}

function unknownGap(saidId: number, lastId: number) {
  return { missed: null, first_id: saidId + 1, last_id: lastId };
}

/** Writes as many of the viewer's next frames as fit into one write, or a gap frame for those that were dropped. */
function writeNext(log: FrameLog, viewer: Viewer, describe: () => string): boolean {
  const firstId = viewer.lastId + 1;
  if (firstId < log.firstId) return viewer.sink.write(gapBefore(log, viewer, describe));
  const lastId = log.lastOf(firstId, WRITE_BYTES_MAX);
  viewer.lastId = lastId;
  viewer.events = log.eventsThrough(lastId);
  return viewer.sink.writeBytes(log.bytesOf(firstId, lastId), (to, at) => log.copy(firstId, lastId, to, at));
}

function gapBefore(log: FrameLog, viewer: Viewer, describe: () => string): string {
  const { lastId, events } = viewer;
  viewer.lastId = log.firstId - 1;
  viewer.events = log.eventsThrough(viewer.lastId);
  const missed = { missed: viewer.lastId - lastId, missed_events: events === null ? null : viewer.events - events };
  const gap = { ...missed, first_id: lastId + 1, last_id: viewer.lastId };
  // The viewer may have missed a change of state, so the current state follows the gap.
  return formatFrame('gap', JSON.stringify(gap), viewer.lastId) + formatFrame('state', describe());
}
