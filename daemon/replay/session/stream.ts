/**
 * Sends one session's frames to any number of viewers. A viewer is a position in the frame log, not a queue of its own:
 *
 *   log      41 42 43 44 45 46        newest: 46
 *   viewers     ^slow      ^          frames that a slow viewer has not received wait in the log; once the log has
 *                                     dropped them, the viewer gets a `gap` frame with the number it missed
 *
 * so a viewer that does not read costs only its socket's buffer, and delays no other viewer.
 *
 * Frames of events are prepared ahead of their time. The player's thread writes them to the sockets of direct viewers,
 * which have all earlier frames. A viewer whose socket is full or encrypted gets its frames from this module.
 */
import { Problem } from '../../base/problem.ts';
import { formatFrame, HEARTBEAT, RETRY_MS, type Sink } from '../../base/sse.ts';
import type { SessionState } from '../../contract/transitions.ts';
import type { SteadyNow } from '../clock/clock.ts';
import { FRAME, nativeClock, type Track } from '../clock/player.ts';
import type { Alarm } from '../clock/scheduler.ts';
import type { PlanPage } from '../plan/plan.ts';
import { computeEventBytes, openJson } from './event_buffer.ts';

/**
 * Why a stream has ended. After `finished`, the session can play again, and a viewer that reconnects receives its
 * frames.
 */
export type EndReason = 'finished' | 'stopped' | 'failed' | 'deleted' | 'expired' | 'shutdown';

/** Returns why no more frames follow for now; null while frames may follow. */
export function findEndReason(state: SessionState, failure: string | null): EndReason | null {
  if (failure !== null) return 'failed';
  return state === 'finished' || state === 'stopped' ? state : null;
}

export const VIEWERS_MAX = 256;
/** Maximum number of bytes that are written to a socket at once. */
const WRITE_BYTES_MAX = 64 * 1024;

/** The session whose frames are sent. */
export interface StreamSource {
  /** Returns the session as JSON. */
  describe(): string;
  /** Returns the position as JSON; null while it does not move. */
  describePosition(): string | null;
  /** Returns why no more frames follow for now; null if frames may follow. */
  findEndReason(): EndReason | null;
}

export interface StreamOptions {
  source: StreamSource;
  keptTotal: KeptTotal;
  /** Base of the frame ids: the first id is `idBase` + 1, and lower ids belong to earlier streams of the session. */
  idBase?: number;
  track: Track;
  /** Takes all played frames into the log. */
  catchUp: () => void;
  now: SteadyNow;
  alarm: (ring: () => void) => Alarm;
}

/** A session's stream as its clients use it. */
export interface SessionStream {
  readonly viewerCount: number;
  /** Id of the newest frame in the log; `idBase` before the first frame. */
  readonly lastId: number;
  /** Throws a Problem when there are VIEWERS_MAX viewers. */
  checkRoom(): void;
  /** Adds a viewer. `lastId` is the last frame id that the viewer reports as received; null if it reports no id. */
  join(sink: Sink, lastId: number | null): void;
  /** Like `join`, for a viewer that wants no events. Its stream begins with the current state. */
  watch(sink: Sink, lastId: number | null, wanted: WantedFrames): void;
  /** Whether an id can belong to a frame of this session. */
  isKnownId(id: number): boolean;
  /** Whether the frame with this id is the newest. */
  isNewest(id: number): boolean;
  sendHeartbeat(): void;
  close(reason: EndReason): void;
}

/**
 * A session's stream as its playback uses it. While the player has prepared frames, no other frames can be added to the
 * log.
 */
export interface PlayedStream extends SessionStream {
  /** Prepares the frames of events that follow the events prepared before; `count` is the number of frames. */
  prepare(events: DueEvents): { bytes: Buffer; count: number };
  /** Takes the oldest prepared frames into the log, because they were played. */
  commitPlayed(count: number): void;
  /** Lets the player write the frames that it plays from now on directly to those sockets that allow it. */
  goDirect(): void;
  /**
   * Takes the viewers back from the player and forgets the frames that were not played. Until the next `prepare` or
   * `goDirect`, frames can be added.
   */
  recall(): AddedFrames;
  /** Sends each viewer its missing frames. After `goDirect`, viewers with no missing frame go back to the player. */
  flush(): void;
}

/** Adds frames after the played frames; `flush` sends them. All methods throw while the player has prepared frames. */
export interface AddedFrames {
  addEvent(json: string): void;
  addState(json: string): void;
  /** Adds an `end` frame, which ends the viewers' connections. */
  end(reason: EndReason): void;
}

export function createStream(options: StreamOptions): PlayedStream {
  const { source, keptTotal, idBase = 0, track, catchUp } = options;
  const log = createFrameLog(keptTotal, idBase);
  const viewers = new Set<Viewer>();
  const watchers = createWatchers(options);
  const { takeBack, giveAway, lookAt } = createDirectViewers(track, log);
  /** The id of the last `end` frame. */
  let endedAt = 0;

  /** Whether the player writes to the sockets of direct viewers. */
  let isDirect = false;

  function leave(viewer: Viewer): void {
    viewers.delete(viewer);
    viewer.sink.end();
  }

  function write(viewer: Viewer, frames: string): void {
    viewer.blocked = !viewer.sink.write(frames);
  }

  function flushTo(viewer: Viewer): void {
    // A viewer with no missing frame may have joined after the end, and stays for the next round.
    if (viewer.direct || viewer.lastId === log.lastId) return;
    while (!viewer.blocked && viewer.lastId < log.lastId) viewer.blocked = !writeNext(log, viewer, source);
    // This viewer has received everything up to the end.
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

  const added: AddedFrames = {
    addEvent(json) {
      append('event', json, 1);
    },
    addState(json) {
      append('state', json);
      watchers.tell(json, log.lastId);
    },
    end(reason) {
      append('end', JSON.stringify({ reason }));
      endedAt = log.lastId;
      flush();
      watchers.end(reason, endedAt);
    },
  };

  function append(kind: FrameKind, json: string, events?: number): void {
    if (isDirect) throw new Error('the player writes to the sockets: no frame can be added');
    log.append(kind, json, events);
  }

  function recall(): AddedFrames {
    isDirect = false;
    for (const viewer of viewers) takeBack(viewer);
    log.discard();
    return added;
  }

  return {
    get viewerCount() {
      return viewers.size + watchers.count;
    },
    get lastId() {
      return log.lastId;
    },
    prepare: log.prepare,
    commitPlayed(count) {
      log.commit(count);
      lookAt(viewers);
    },
    goDirect,
    recall,
    flush,
    // `catchUp` comes first: a viewer may have frames that the player has written and the log does not have yet.
    isKnownId(id) {
      catchUp();
      return Number.isSafeInteger(id) && id >= 0 && id <= log.lastId;
    },
    isNewest(id) {
      catchUp();
      return id === log.lastId;
    },
    checkRoom() {
      if (viewers.size + watchers.count < VIEWERS_MAX) return;
      throw new Problem('session_limit', `the session has ${VIEWERS_MAX} viewers already`);
    },
    join(sink, saidId) {
      // `describe` takes played frames into the log, so it is called before `log.lastId` is read.
      const state = source.describe();
      // Frames of an earlier stream are lost, so the viewer gets a gap and the current state. The id 0 requests all
      // kept frames.
      const isFromBefore = saidId !== null && saidId > 0 && saidId < idBase;
      const lastId = isFromBefore ? null : saidId === 0 ? idBase : saidId;
      const from = lastId ?? log.lastId;
      const events = from >= log.firstId - 1 ? log.countEventsThrough(from) : null;
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
        // The missing frames are written here, because the player would hold its lock while writing them.
        catchUp();
        flushTo(viewer);
        if (isDirect) goDirect();
      });
      const gap = isFromBefore
        ? formatFrame('gap', JSON.stringify(buildUnknownGap(saidId, log.lastId)), log.lastId)
        : '';
      write(viewer, `retry: ${RETRY_MS}\n\n${gap}${lastId === null ? formatFrame('state', state, log.lastId) : ''}`);
      const reason = source.findEndReason();
      if (lastId === null && reason) {
        write(viewer, formatFrame('end', JSON.stringify({ reason })));
        leave(viewer);
      } else if (viewer.lastId < log.lastId) flushTo(viewer);
      if (isDirect) goDirect();
    },
    watch(sink, lastId, wanted) {
      catchUp();
      // A viewer that has received the end stays for the next round.
      watchers.join(sink, wanted, log.lastId, lastId === log.lastId ? null : source.findEndReason());
    },
    sendHeartbeat() {
      watchers.sendHeartbeat();
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
      if (viewers.size + watchers.count > 0) added.end(reason);
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

function buildUnknownGap(saidId: number, lastId: number) {
  return { missed: null, first_id: saidId + 1, last_id: lastId };
}

/**
 * Writes as many of the viewer's next frames as fit into one write, or a gap frame for the frames that were dropped.
 */
function writeNext(log: FrameLog, viewer: Viewer, source: StreamSource): boolean {
  const firstId = viewer.lastId + 1;
  if (firstId < log.firstId) return viewer.sink.write(skipDropped(log, viewer, source));
  const lastId = log.findLastId(firstId, WRITE_BYTES_MAX);
  viewer.lastId = lastId;
  viewer.events = log.countEventsThrough(lastId);
  return viewer.sink.writeBytes(log.computeRunBytes(firstId, lastId), (to, at) => log.copy(firstId, lastId, to, at));
}

function skipDropped(log: FrameLog, viewer: Viewer, source: StreamSource): string {
  const { lastId, events } = viewer;
  viewer.lastId = log.firstId - 1;
  viewer.events = log.countEventsThrough(viewer.lastId);
  const missed = { missed: viewer.lastId - lastId, missed_events: events === null ? null : viewer.events - events };
  const gap = { ...missed, first_id: lastId + 1, last_id: viewer.lastId };
  // The viewer may have missed a change of state, so the current state follows the gap.
  return formatFrame('gap', JSON.stringify(gap), viewer.lastId) + formatFrame('state', source.describe());
}

/*
 * The log of a session's server-sent events. Frames are numbered, and the latest frames are kept for viewers that lost
 * their connection or read slowly. The numbers only ever increase.
 */

type FrameKind = 'event' | 'state' | 'end';

/** Maximum number of frames, and of their bytes, that are kept for one session. */
export const KEPT_FRAMES_MAX = 16_384;
const KEPT_BYTES_MAX = 16 * 1024 * 1024;
/**
 * Maximum number of bytes that are kept for all sessions together; the session that exceeds it drops its oldest frames.
 */
const KEPT_BYTES_TOTAL_MAX = 256 * 1024 * 1024;

export interface KeptTotal {
  bytes: number;
}

export interface FrameLog {
  /** The id of the newest frame; `idBase` before the first frame. */
  readonly lastId: number;
  /** The id of the oldest kept frame; `lastId + 1` if no frame is kept. */
  readonly firstId: number;
  /** Appends a frame; `events` is the number of events in it. */
  append(kind: FrameKind, json: string, events?: number): void;
  /**
   * Writes the frames of events, as many as fit into one run of bytes, and returns their number. Prepared frames are
   * not in the log until they are committed, and nothing may be appended until then. The bytes of frames stay until the
   * frames are dropped or discarded.
   */
  prepare(events: DueEvents): { bytes: Buffer; count: number };
  /** Takes the oldest prepared frames into the log. */
  commit(count: number): void;
  /** Forgets the prepared frames. */
  discard(): void;
  /**
   * Finds a run of frames that starts with `id`, and returns the run's last id. The run has at least one frame, and at
   * most slightly more than `bytesMax` bytes. `id` must be from `firstId` to `lastId`.
   */
  findLastId(id: number, bytesMax: number): number;
  /** Returns the length in bytes of a run of frames that `findLastId` has found. */
  computeRunBytes(id: number, lastId: number): number;
  /** Copies a run of frames that `findLastId` has found into a buffer. */
  copy(id: number, lastId: number, to: Buffer, at: number): void;
  /** Counts the events in all frames up to and including this one; `id` must be from `firstId - 1` to `lastId`. */
  countEventsThrough(id: number): number;
  clear(): void;
}

/**
 * Size of a slab, which many frames share: a buffer per frame would mean 10 000 objects a second that survive into the
 * garbage collector's old generation.
 */
const SLAB_BYTES = 256 * 1024;
const SLAB_FRAMES = 1024;
/** The first slab is small, because most sessions send few frames. */
const FIRST_SLAB_BYTES = 16 * 1024;
const FIRST_SLAB_FRAMES = 64;

/** Consecutive frames in one buffer. */
interface Slab {
  firstId: number;
  count: number;
  bytes: Buffer;
  /** The end offset of each frame. */
  ends: Uint32Array;
  /** The number of events in all frames up to and including each frame. */
  eventsThrough: Float64Array;
}

/** Creates a log whose first frame has the id `idBase` + 1. */
export function createFrameLog(total: KeptTotal, idBase = 0): FrameLog {
  const slabs: Slab[] = [];
  let spare: Slab | undefined;
  let firstId = idBase + 1;
  let lastId = idBase;
  /** The id of the newest prepared frame; `lastId` if no frame is prepared. */
  let preparedId = idBase;
  let keptBytes = 0;
  let eventsDropped = 0;
  let eventsAppended = 0;

  function findSlab(id: number): Slab {
    // The search starts at the newest slab, which nearly always has the frame.
    let at = slabs.length - 1;
    while (slabs[at]!.firstId > id) at--;
    return slabs[at]!;
  }

  /** Returns the last slab if it has room, otherwise a new slab. */
  function findOrAddSlab(bytesMax: number): Slab {
    const last = slabs.at(-1);
    if (last && last.count < last.ends.length && bytesMax <= last.bytes.length - getSlabEnd(last)) return last;
    const slab = allocateSlab(bytesMax);
    slab.firstId = preparedId + 1;
    slab.count = 0;
    slabs.push(slab);
    return slab;
  }

  function allocateSlab(bytesMax: number): Slab {
    if (bytesMax > SLAB_BYTES) return createSlab(bytesMax, 1);
    if (slabs.length === 0 && bytesMax <= FIRST_SLAB_BYTES) return createSlab(FIRST_SLAB_BYTES, FIRST_SLAB_FRAMES);
    const slab = spare ?? createSlab(SLAB_BYTES, SLAB_FRAMES);
    spare = undefined;
    return slab;
  }

  function add(bytes: number): void {
    keptBytes += bytes;
    total.bytes += bytes;
  }

  function dropOldest(): void {
    const slab = slabs[0]!;
    const at = firstId - slab.firstId;
    add(getFrameStart(slab, at) - slab.ends[at]!);
    eventsDropped = slab.eventsThrough[at]!;
    firstId++;
    if (at + 1 < slab.count) return;
    slabs.shift();
    if (slab.bytes.length === SLAB_BYTES) spare = slab;
  }

  function isOverLimit(): boolean {
    const frames = lastId + 1 - firstId;
    return frames > KEPT_FRAMES_MAX || keptBytes > KEPT_BYTES_MAX || total.bytes > KEPT_BYTES_TOTAL_MAX;
  }

  function append(kind: FrameKind, json: string, events = 0): void {
    if (preparedId !== lastId) throw new Error('frames are prepared: none can be added before they are played');
    const frame = formatFrame(kind, json, preparedId + 1);
    const slab = findOrAddSlab(Buffer.byteLength(frame));
    const start = getSlabEnd(slab);
    addFrame(slab, start + slab.bytes.write(frame, start), events);
    commit(1);
  }

  function addFrame(slab: Slab, end: number, events: number): void {
    eventsAppended += events;
    slab.ends[slab.count] = end;
    slab.eventsThrough[slab.count] = eventsAppended;
    slab.count++;
    preparedId++;
  }

  function prepare(due: DueEvents): { bytes: Buffer; count: number } {
    const slab = findOrAddSlab(computeEventBytes(due.page, due.at) + REPLAY_BYTES_MAX);
    const room = (slab.ends.length - slab.count) * FRAME.length;
    const frames = due.frames.length > room ? due.frames.subarray(0, room) : due.frames;
    const count = writeEvents({ ...due, frames }, preparedId + 1, slab.bytes, getSlabEnd(slab));
    for (let at = 0; at < count * FRAME.length; at += FRAME.length)
      addFrame(slab, Number(frames[at + FRAME.start]) + Number(frames[at + FRAME.size]), 1);
    return { bytes: slab.bytes, count };
  }

  function commit(count: number): void {
    for (let i = 0; i < count; i++) {
      lastId++;
      const slab = findSlab(lastId);
      const at = lastId - slab.firstId;
      add(slab.ends[at]! - getFrameStart(slab, at));
      // The newest frame stays: it has not been sent to any viewer yet.
      while (firstId < lastId && isOverLimit()) dropOldest();
    }
  }

  function discard(): void {
    for (let slab = slabs.at(-1); slab && slab.firstId + slab.count - 1 > lastId; slab = slabs.at(-1)) {
      slab.count = Math.max(lastId + 1 - slab.firstId, 0);
      if (slab.count > 0) break;
      slabs.pop();
      if (slab.bytes.length === SLAB_BYTES) spare = slab;
    }
    preparedId = lastId;
    eventsAppended = countEventsThrough(lastId);
  }

  function countEventsThrough(id: number): number {
    if (id < firstId) return eventsDropped;
    const slab = findSlab(id);
    return slab.eventsThrough[id - slab.firstId]!;
  }

  return {
    get lastId() {
      return lastId;
    },
    get firstId() {
      return firstId;
    },
    append,
    prepare,
    commit,
    discard,
    findLastId(id, bytesMax) {
      const slab = findSlab(id);
      let last = id - slab.firstId;
      const start = getFrameStart(slab, last);
      const count = Math.min(slab.count, lastId + 1 - slab.firstId);
      while (last + 1 < count && slab.ends[last]! - start < bytesMax) last++;
      return slab.firstId + last;
    },
    computeRunBytes(id, last) {
      const slab = findSlab(id);
      return slab.ends[last - slab.firstId]! - getFrameStart(slab, id - slab.firstId);
    },
    copy(id, last, to, at) {
      const slab = findSlab(id);
      slab.bytes.copy(to, at, getFrameStart(slab, id - slab.firstId), slab.ends[last - slab.firstId]);
    },
    countEventsThrough,
    clear() {
      while (firstId <= lastId) dropOldest();
      spare = undefined;
    },
  };
}

function createSlab(bytes: number, frames: number): Slab {
  return {
    firstId: 0,
    count: 0,
    bytes: Buffer.allocUnsafeSlow(bytes),
    ends: new Uint32Array(frames),
    eventsThrough: new Float64Array(frames),
  };
}

function getFrameStart({ ends }: Slab, at: number): number {
  return at === 0 ? 0 : ends[at - 1]!;
}

function getSlabEnd(slab: Slab): number {
  return getFrameStart(slab, slab.count);
}

/*
 * Direct viewers: the player's thread writes to their sockets, because they have all frames that were played before.
 */

interface Viewer {
  sink: Sink;
  /** The id of the last frame that was written to the viewer. */
  lastId: number;
  /** The number of events up to that frame; null if the log has dropped the frame. */
  events: number | null;
  /** Whether the socket is full. */
  blocked: boolean;
  /**
   * Set while the player writes to the socket: the viewer's number in the player, the number of frames played before,
   * and the number of bytes that the socket is known to have accepted since.
   */
  direct: { viewer: number; playedBefore: number; sentBytes: number } | undefined;
}

interface DirectViewers {
  /** Takes a viewer back from the player. The viewer may have received frames that are not in the log yet. */
  takeBack(viewer: Viewer): void;
  /** Hands a viewer that has all frames of the log to the player, which also sends the frames played since. */
  giveAway(viewer: Viewer): void;
  /** Takes back the viewers whose sockets are full, and reports the bytes that the other sockets accepted. */
  lookAt(viewers: Iterable<Viewer>): void;
}

function createDirectViewers(track: Track, log: FrameLog): DirectViewers {
  function takeBack(viewer: Viewer): void {
    if (!viewer.direct) return;
    const { viewer: name, playedBefore, sentBytes } = viewer.direct;
    const left = track.detach(name);
    viewer.direct = undefined;
    if (!left) return;
    const { through, sent, rest } = left;
    viewer.sink.reportDirectWrite!(sent - sentBytes);
    viewer.lastId += through - playedBefore;
    viewer.events = viewer.lastId >= log.firstId - 1 ? log.countEventsThrough(viewer.lastId) : null;
    if (rest.length > 0) viewer.blocked = !viewer.sink.writeRest!(rest);
  }

  return {
    takeBack,
    giveAway(viewer) {
      if (viewer.direct || viewer.blocked || viewer.lastId !== log.lastId) return;
      const socket = viewer.sink.findDirectSocket?.();
      const name = socket && track.attach(socket.fd, socket.isChunked);
      if (name !== undefined) viewer.direct = { viewer: name, playedBefore: track.playedCount, sentBytes: 0 };
    },
    lookAt(viewers) {
      const sentBytes = track.readSentBytes();
      for (const viewer of viewers) {
        if (!viewer.direct) continue;
        const sent = sentBytes.get(viewer.direct.viewer);
        if (sent === undefined) takeBack(viewer);
        else {
          viewer.sink.reportDirectWrite!(sent - viewer.direct.sentBytes);
          viewer.direct.sentBytes = sent;
        }
      }
    },
  };
}

/*
 * Watchers are viewers that want no events. They get states and, while the session plays, its position 20 times a
 * second. A watcher needs no position in the frame log, because each frame replaces all earlier frames of its kind.
 */

const POSITION_EVERY_NS = 50_000_000n;

/** The frames that a watcher wants; every watcher gets `end`. */
export interface WantedFrames {
  state: boolean;
  position: boolean;
}

interface Watchers {
  readonly count: number;
  /**
   * Adds a watcher. `over` is the reason why no more frames follow for now; null if frames may follow, or if the
   * watcher has received the end.
   */
  join(sink: Sink, wanted: WantedFrames, lastId: number, over: string | null): void;
  /** Sends a new state; `id` is the id of the state's frame in the log. */
  tell(state: string, id: number): void;
  /** Sends the `end` frame and ends the connections. */
  end(reason: string, id: number): void;
  sendHeartbeat(): void;
  close(): void;
}

interface Watcher {
  sink: Sink;
  wanted: WantedFrames;
  /** Frames, except positions, for which the full socket had no room. The newest state replaces all missed states. */
  missed: { id: number; isState: boolean; end: StreamEnd | undefined } | undefined;
  blocked: boolean;
}

/**
 * The end of a watcher's stream, which closes the watcher's connection. Later frames go to the watcher's next
 * connection.
 */
interface StreamEnd {
  reason: string;
  /** The state at the end of the stream, as JSON. */
  state: string;
}

function createWatchers({ now, alarm, source }: Pick<StreamOptions, 'now' | 'alarm' | 'source'>): Watchers {
  const watchers = new Set<Watcher>();
  let isTicking = false;
  const tick = alarm(() => {
    isTicking = false;
    const json = wantsPosition() ? source.describePosition() : null;
    if (json === null) return;
    const frame = formatFrame('position', json);
    // A watcher whose socket is full skips this position: the next one replaces it.
    for (const watcher of watchers) if (watcher.wanted.position && !watcher.blocked) write(watcher, frame);
    startTicking();
  });

  function wantsPosition(): boolean {
    for (const { wanted } of watchers) if (wanted.position) return true;
    return false;
  }

  function startTicking(): void {
    if (isTicking || !wantsPosition()) return;
    isTicking = true;
    tick.set(now() + POSITION_EVERY_NS);
  }

  function write(watcher: Watcher, frames: string): void {
    watcher.blocked = !watcher.sink.write(frames);
  }

  function leave(watcher: Watcher): void {
    watchers.delete(watcher);
    watcher.sink.end();
  }

  function send(watcher: Watcher, id: number, state: string | null, end?: StreamEnd): void {
    const isState = state !== null && watcher.wanted.state;
    if (watcher.blocked) {
      const { missed } = watcher;
      if (!missed?.end) watcher.missed = { id, isState: isState || missed?.isState === true, end };
      return;
    }
    const frames = [
      isState ? formatFrame('state', state, id) : '',
      end ? formatFrame('end', JSON.stringify({ reason: end.reason }), id) : '',
    ];
    if (frames.join('') !== '') write(watcher, frames.join(''));
    if (end) leave(watcher);
  }

  return {
    get count() {
      return watchers.size;
    },
    join(sink, wanted, lastId, over) {
      const watcher: Watcher = { sink, wanted, missed: undefined, blocked: false };
      watchers.add(watcher);
      sink.on('close', () => watchers.delete(watcher));
      // A write may fail because the connection has just closed; `close` follows.
      sink.on('error', () => {});
      sink.on('drain', () => {
        watcher.blocked = false;
        const { missed } = watcher;
        watcher.missed = undefined;
        if (!missed || !watchers.has(watcher)) return;
        const { id, isState, end } = missed;
        send(watcher, id, isState ? (end?.state ?? source.describe()) : null, end);
      });
      const state = source.describe();
      write(watcher, `retry: ${RETRY_MS}\n\n${wanted.state ? formatFrame('state', state, lastId) : ''}`);
      if (over) send(watcher, lastId, null, { reason: over, state });
      else startTicking();
    },
    tell(state, id) {
      for (const watcher of watchers) send(watcher, id, state);
      startTicking();
    },
    end(reason, id) {
      const end = { reason, state: source.describe() };
      for (const watcher of watchers) send(watcher, id, null, end);
    },
    sendHeartbeat() {
      for (const watcher of watchers) if (!watcher.blocked) write(watcher, HEARTBEAT);
    },
    close() {
      tick.clear();
      // The sockets are full: waiting for their readers could take forever.
      for (const { sink } of watchers) sink.destroy();
      watchers.clear();
    },
  };
}

/* Writes the JSON of an event together with its replay fields. */

/** The replay fields of an event in the API, which follow the event's own fields. */
export interface ReplayedEvent {
  index: number;
  /** Start on the replay's time line. */
  offset_ns: number;
  /** Deadline on the daemon's steady clock (CLOCK_MONOTONIC). */
  due_ns: bigint;
  lateness_ns: bigint;
  /** Duration including the extra latency. */
  duration_ns: number;
  after_timeout: boolean;
}

/** Events of a page from `at` on, one event for each frame in `frames`. */
interface DueEvents {
  page: PlanPage;
  at: number;
  /**
   * For each event, its deadline and, once the event is written, the start and size of its bytes and the offset of its
   * lateness. FRAME names the offsets of these numbers.
   */
  frames: BigInt64Array;
  timeoutNs: bigint | null;
}

/** Maximum number of bytes that are written for an event in addition to its JSON. */
const REPLAY_BYTES_MAX = 320;

/**
 * Writes as many events as fit into `to`, and returns their number. Events become frames with ids from `firstId` on, or
 * plain JSON if `firstId` is null.
 */
export function writeEvents(events: DueEvents, firstId: number | null, to: Buffer, start: number): number {
  const { page, at, frames, timeoutNs } = events;
  return nativeClock.writeEvents(page, at, frames, timeoutNs === null ? null : Number(timeoutNs), firstId, to, start);
}

/** Encodes each event of a step as JSON. The deadline of these events is the time of the request. */
export function encodeSteppedEvents(page: PlanPage, nowNs: bigint, timeoutNs: bigint | null): string[] {
  const frames = new BigInt64Array(page.count * FRAME.length);
  for (let at = FRAME.due; at < frames.length; at += FRAME.length) frames[at] = nowNs;
  const to = Buffer.allocUnsafe(page.bytes.length + page.count * REPLAY_BYTES_MAX);
  writeEvents({ page, at: 0, frames, timeoutNs }, null, to, 0);
  return Array.from({ length: page.count }, (_, at) => {
    const [start, size] = [FRAME.start, FRAME.size].map((field) => Number(frames[at * FRAME.length + field]));
    return to.toString('utf8', start, start! + size!);
  });
}

/** Encodes each event of a page of the schedule as JSON. */
export function encodeScheduledEvents(page: PlanPage, timeoutNs: bigint | null): string[] {
  return Array.from({ length: page.count }, (_, at) => {
    const startNs = page.startNs[at]!;
    const durationNs = page.durationNs[at]!;
    const scheduled = {
      replay_index: page.first + at,
      replay_offset_ns: startNs,
      replay_duration_ns: durationNs,
      after_timeout: page.isOwn[at] === 1 && isAfterTimeout(startNs + durationNs, timeoutNs),
    };
    return `${openJson(page, at)},${JSON.stringify(scheduled).slice(1)}`;
  });
}

function isAfterTimeout(endNs: number, timeoutNs: bigint | null): boolean {
  return timeoutNs !== null && endNs > timeoutNs;
}
