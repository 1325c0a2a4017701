/**
 * Live tails. Each tail consists of a position and a socket: events that a slow client has not received yet stay in the
 * recording, so the client costs nothing until it reads again. Tails with the same filter and position share one read.
 */
import type { Logger } from 'pino';
import { stringify } from '../base/exact_json.ts';
import { Problem } from '../base/problem.ts';
import { formatFrame, HEARTBEAT, RETRY_MS, type Sink } from '../base/sse.ts';
import { addTimeTexts } from '../base/time_text.ts';
import type { EventFilter, Followed, FollowedBatch, FollowPosition, FollowRequest, Store } from '../store/store.ts';

export const TAILS_MAX = 256;
/** Maximum number of tails of a fleet. Each of them queries the fleet's servers every second. */
export const FLEET_TAILS_MAX = 32;

/**
 * Time for which an event is held back after its start, so that events that began earlier can precede it: an agent
 * writes its events every 100 ms. An event that is recorded even later is sent with `late`.
 */
export const REORDER_NS = 150_000_000n;

const POLL_EVERY_MS = 25;
const HEARTBEAT_EVERY_MS = 15_000;

interface OpenTail {
  readonly sink: Sink;
  readonly filter: EventFilter;
  readonly filterText: string;
  readonly gone: AbortController;
  position: FollowPosition;
  /** Whether the tail's socket is full. */
  blocked: boolean;
  busy: boolean;
}

export interface TailOptions {
  store: Store;
  /** Wall clock in nanoseconds since the epoch. */
  now: () => bigint;
  log: Logger;
  heartbeatEveryMs?: number;
  tailsMax?: number;
}

export interface TailRequest {
  /** A filter that does not restrict times. */
  filter: EventFilter;
  fromNs: bigint | undefined;
  lastEventId: string | undefined;
}

/** The point at which a tail starts. */
export interface TailStart {
  filter: EventFilter;
  position: FollowPosition;
}

export interface Tails {
  readonly count: number;
  /** Rejects with a Problem if the request is invalid. */
  findStart(request: TailRequest): Promise<TailStart>;
  /** Throws a Problem if too many tails are open. */
  begin(start: TailStart): { join(sink: Sink): void };
  /**
   * Ends every tail with a frame from which its client can continue after a restart. Tails that join later end at
   * once.
   */
  close(): void;
}

export function createTails(options: TailOptions): Tails {
  const { store, now, log, heartbeatEveryMs = HEARTBEAT_EVERY_MS, tailsMax = TAILS_MAX } = options;
  const tails = new Set<OpenTail>();
  /** Batches that were read in this pass, shared by tails with the same filter and position. */
  const shared = new Map<string, Promise<Frames | undefined>>();
  let timers: NodeJS.Timeout[] = [];
  let horizonNs = 0n;
  let isClosed = false;

  function poll(): void {
    shared.clear();
    horizonNs = now() - REORDER_NS;
    for (const tail of tails) void advance(tail);
  }

  /** Sends batches until no more events are due or the socket is full. */
  async function advance(tail: OpenTail): Promise<void> {
    if (tail.busy) return;
    tail.busy = true;
    try {
      for (let complete = false; !complete && !tail.blocked && tails.has(tail); ) {
        const batch = await read(tail);
        if (!batch || !tails.has(tail)) break;
        tail.position = batch.position;
        complete = batch.complete;
        if (batch.text !== '') tail.blocked = !tail.sink.write(batch.text);
      }
    } catch (error) {
      log.warn({ err: error }, 'live tail broke off');
      // The connection is closed, so that the client reconnects and gets the error.
      tail.sink.destroy();
    } finally {
      tail.busy = false;
    }
  }

  function read({ filter, filterText, position, gone }: OpenTail): Promise<Frames | undefined> {
    const key = `${position.sharedAs ?? position.id} ${horizonNs} ${filterText}`;
    const known = shared.get(key);
    if (known) return known;
    // If this client disconnects, tails that share the batch do not get it, and read again in the next pass.
    const batch = followFrames(store, { filter, position, horizonNs, nowNs: now() }, gone.signal);
    shared.set(key, batch);
    return batch;
  }

  function sendHeartbeat(): void {
    for (const { sink, blocked } of tails) if (!blocked) sink.write(HEARTBEAT);
  }

  function leave(tail: OpenTail): void {
    tails.delete(tail);
    tail.gone.abort();
    if (tails.size > 0) return;
    timers.forEach(clearInterval);
    timers = [];
    shared.clear();
  }

  function join(sink: Sink, filter: EventFilter, position: FollowPosition): void {
    const filterText = stringify(filter);
    const tail = { sink, filter, filterText, gone: new AbortController(), position, blocked: false, busy: false };
    tails.add(tail);
    if (timers.length === 0) timers = [setInterval(poll, POLL_EVERY_MS), setInterval(sendHeartbeat, heartbeatEveryMs)];
    sink.on('close', () => leave(tail));
    // A write may fail because the connection has just been closed; `close` follows.
    sink.on('error', () => {});
    sink.on('drain', () => {
      tail.blocked = false;
      void advance(tail);
    });
    tail.blocked = !sink.write(`retry: ${RETRY_MS}\n\n`);
    if (isClosed) end(tail);
  }

  function end(tail: OpenTail): void {
    const { sink, position } = tail;
    leave(tail);
    sink.end(formatFrame('end', JSON.stringify({ reason: 'shutdown' }), position.id));
  }

  return {
    get count() {
      return tails.size;
    },
    async findStart({ filter, fromNs, lastEventId }) {
      if (!lastEventId) return { filter, position: await store.startFollowing(filter, now() - REORDER_NS, fromNs) };
      const position = store.parseFollowPosition(lastEventId);
      if (!position) throw createIdProblem();
      return { filter, position };
    },
    begin({ filter, position }) {
      if (tails.size >= tailsMax) throw new Problem('tail_limit', `${tailsMax} live tails are open already`);
      return { join: (sink) => join(sink, filter, position) };
    },
    close() {
      isClosed = true;
      for (const tail of tails) end(tail);
    },
  };
}

function createIdProblem(): Problem {
  const message = 'this is not an id of a live tail';
  return new Problem('invalid_parameter', `Last-Event-ID: ${message}`, [{ parameter: 'Last-Event-ID', message }]);
}

/* Writes the events and losses that follow a position as frames of a live tail. */

/** A batch as text for a client. The id of each frame is the position after that frame. */
export interface Frames extends Omit<FollowedBatch, 'followed'> {
  text: string;
}

/** Resolves to undefined if `signal` aborts. */
export async function followFrames(
  store: Store,
  request: FollowRequest,
  signal: AbortSignal,
): Promise<Frames | undefined> {
  const batch = await store.follow(request, signal);
  if (!batch) return undefined;
  const { followed, ...rest } = batch;
  return { ...rest, text: followed.map(encodeFrame).join('') };
}

function encodeFrame(followed: Followed): string {
  if (followed.kind === 'lost') {
    const { fromNs: from, toNs: to, lost, cause, service, node } = followed.loss;
    const times = addTimeTexts({ from, to });
    const whose = service === undefined ? { node } : { service, node };
    return formatFrame('lost', stringify({ lost, cause, ...times, ...whose }), followed.id);
  }
  const { json, isLate } = followed;
  return formatFrame('event', isLate ? `${json.slice(0, -1)},"late":true}` : json, followed.id);
}
