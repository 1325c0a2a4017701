/**
 * The viewers of a session that want no events: they get states and, while it plays, its position 20 times a second. They
 * have no place in the frame log, so they miss nothing that they want: each frame says all there is to know at that time.
 */
import { formatFrame, HEARTBEAT, RETRY_MS, type Sink } from '../../base/sse.ts';
import type { SteadyNow } from '../clock/clock.ts';
import type { Alarm } from '../clock/scheduler.ts';

const POSITION_EVERY_NS = 50_000_000n;

/** The frames that such a viewer wants; every one gets `end`. */
export interface Wanted {
  state: boolean;
  position: boolean;
}

export interface WatchersOptions {
  now: SteadyNow;
  alarm: (ring: () => void) => Alarm;
  /** The session as JSON. */
  describe: () => string;
  /** The position as JSON; null while it does not move. */
  position: () => string | null;
}

export interface Watchers {
  readonly count: number;
  /** `over` says why no more frames follow for now, unless the watcher knows. */
  join(sink: Sink, wanted: Wanted, lastId: number, over: string | null): void;
  /** Sends a new state; `id` is that of its frame in the log. */
  tell(state: string, id: number): void;
  /** Sends the end and ends the connections. */
  end(reason: string, id: number): void;
  heartbeat(): void;
  close(): void;
}

interface Watcher {
  sink: Sink;
  wanted: Wanted;
  /** What its socket had no room for, but a position: the newest state is sent for all that were missed. */
  missed: { id: number; isState: boolean; end: Ending | undefined } | undefined;
  blocked: boolean;
}

/** The end of its stream, for which it is released: what comes later is for the stream of its next connection. */
interface Ending {
  reason: string;
  /** The state at that time as JSON. */
  state: string;
}

export function createWatchers({ now, alarm, describe, position }: WatchersOptions): Watchers {
  const watchers = new Set<Watcher>();
  let isTicking = false;
  const tick = alarm(() => {
    isTicking = false;
    const json = wantsPosition() ? position() : null;
    if (json === null) return;
    const frame = formatFrame('position', json);
    // One whose socket is full skips this position: the next one replaces it.
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

  function send(watcher: Watcher, id: number, state: string | null, end?: Ending): void {
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
        send(watcher, id, isState ? (end?.state ?? describe()) : null, end);
      });
      const state = describe();
      write(watcher, `retry: ${RETRY_MS}\n\n${wanted.state ? formatFrame('state', state, lastId) : ''}`);
      if (over) send(watcher, lastId, null, { reason: over, state });
      else startTicking();
    },
    tell(state, id) {
      for (const watcher of watchers) send(watcher, id, state);
      startTicking();
    },
    end(reason, id) {
      const end = { reason, state: describe() };
      for (const watcher of watchers) send(watcher, id, null, end);
    },
    heartbeat() {
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
