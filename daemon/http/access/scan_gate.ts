/** Limits the cost of queries: the number of concurrent scans, and the time until a scan yields something. */
import type { Response } from 'express';
import { favour } from '../../base/event_loop.ts';
import { Problem } from '../../base/problem.ts';
import type { Unsent } from './unsent.ts';

export const SCANS_MAX_DEFAULT = 16;
export const QUERY_TIMEOUT_MS_DEFAULT = 30_000;

/**
 * Number of queries that may wait, as a multiple of the scans that may run. In a longer queue, the last queries would
 * wait too long.
 */
export const WAITING_PER_SCAN = 4;
export const WAIT_MS_MAX_DEFAULT = 2_000;
/**
 * Limits for answers that keep events or transactions in memory until they have read the last event. Such an answer may
 * need 250 MB (see KEPT_EVENTS_MAX), so few of them run at once. They have a separate queue and may wait longer, so
 * that they do not cause the refusal of other answers.
 */
export const KEEPING_MAX = 2;
export const KEEPING_WAITING_MAX = 16;
export const KEEPING_WAIT_MS_MAX = 10_000;
/**
 * Maximum number of chunks that a small answer reads; an answer that needs more continues as an ordinary answer. A
 * small answer has few rows and is complete before it is sent. So small answers have a separate queue and do not wait
 * for memory that other answers occupy.
 */
export const SMALL_CHUNKS_MAX = 64;
/** Maximum number of rows of a small answer. */
export const SMALL_ROWS_MAX = 100;
const RETRY_AFTER_S = 2;
/**
 * Size at which an answer that is sent as a whole ends early. The answer then shows that there is more, for example
 * with a cursor.
 */
export const WHOLE_BYTES_MAX = 8 * 1024 * 1024;
const TOO_MANY_KEEPING =
  'others compare, or choose transactions by values of their events, and as many wait as may: try again';
const GONE = 'the client has gone';
const NO_MEMORY = 'answers that their clients do not read hold all the memory there is for them: try again';

export interface ScanSlot {
  /**
   * Yields the chunks of an answer that is sent as a whole. Throws if the answer takes too long in total, measured from
   * the time when it got its slot.
   */
  limitWhole<Chunk>(chunks: AsyncIterable<Chunk>): AsyncGenerator<Chunk, void>;
  /**
   * Yields the chunks of a stream. Throws if the scan finds nothing for too long; waiting for the client does not
   * count.
   */
  limitStream<Chunk extends { length: number }>(chunks: AsyncIterable<Chunk>): AsyncGenerator<Chunk, void>;
  /**
   * Reports bytes that the answer holds in memory until they are written; they count towards the limit for all answers.
   */
  reportGathered(bytes: number): void;
  /** Releases the slot for keeping events early: the answer needs it no longer, although it has not ended. */
  endKeeping(): void;
}

export interface ScanGate {
  /** Waits a short time for a slot, or throws a Problem. The slot is released when the answer ends. */
  enter(res: Response, what?: { keepsEvents?: boolean; isSmall?: boolean }): Promise<ScanSlot>;
}

/** Whether the gate refused a slot, or ended an answer that took too long. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Problem && (error.code === 'busy' || error.code === 'query_timeout');
}

interface Options {
  scansMax?: number;
  queryTimeoutMs?: number;
  /** Maximum time that a query waits for its slot. */
  waitMsMax?: number;
  /**
   * Maximum time that an answer waits for a slot for keeping events. It gets this slot before it waits for a scan's
   * slot.
   */
  keepingWaitMsMax?: number;
  /** Memory shared by all long answers; unlimited if omitted. */
  unsent?: Pick<Unsent, 'hold' | 'gather' | 'makeRoom'> | undefined;
  nowMs: () => number;
}

export function createScanGate({
  scansMax = SCANS_MAX_DEFAULT,
  queryTimeoutMs = QUERY_TIMEOUT_MS_DEFAULT,
  waitMsMax = WAIT_MS_MAX_DEFAULT,
  keepingWaitMsMax = KEEPING_WAIT_MS_MAX,
  unsent,
  nowMs,
}: Options): ScanGate {
  const tooManyScans = `${scansMax} queries are running already: try again`;

  /** Whether `scansMax` answers are running. An answer that waits for its client to read does not count. */
  function areEnough(running: ReadonlySet<Response>): boolean {
    let count = 0;
    for (const res of running) if (!res.writableNeedDrain && ++count >= scansMax) return true;
    return false;
  }

  const scanning = createSlots({
    // No event signals a slow client or released memory, so the gate also checks this condition periodically.
    isFull: (running) => areEnough(running) || unsent?.makeRoom() === false,
    waitMsMax,
    waitingMax: scansMax * WAITING_PER_SCAN,
    onSlot: (res) => unsent?.hold(res),
  });
  const small = createSlots({
    isFull: ({ size }) => size >= scansMax || unsent?.makeRoom({ isSmall: true }) === false,
    waitMsMax,
    waitingMax: scansMax * WAITING_PER_SCAN,
    onSlot: (res) => favour(res, true),
  });
  const keeping = createSlots({
    isFull: ({ size }) => size >= KEEPING_MAX,
    waitMsMax: keepingWaitMsMax,
    waitingMax: KEEPING_WAITING_MAX,
  });

  function leave(res: Response): void {
    scanning.leave(res);
    small.leave(res);
    keeping.leave(res);
  }

  function refuse(res: Response, code: 'busy' | 'query_timeout', detail: string): never {
    if (!res.headersSent) res.set('Retry-After', String(RETRY_AFTER_S));
    throw new Problem(code, detail);
  }

  async function takeSlot(res: Response, slots: Slots): Promise<void> {
    if (await slots.enter(res)) return;
    keeping.leave(res);
    refuse(res, 'busy', res.closed ? GONE : areEnough(slots.running) ? tooManyScans : NO_MEMORY);
  }

  async function* limitChunks<Chunk>(
    res: Response,
    beganMs: number,
    chunks: AsyncIterable<Chunk>,
    isRenewed: (chunk: Chunk) => boolean,
  ): AsyncGenerator<Chunk, void> {
    let startMs = beganMs;
    let count = 0;
    try {
      for await (const chunk of chunks) {
        if (++count === SMALL_CHUNKS_MAX && small.running.has(res)) {
          small.leave(res);
          favour(res, false);
          await takeSlot(res, scanning);
        }
        if (nowMs() - startMs > queryTimeoutMs)
          refuse(res, 'query_timeout', `not done after ${queryTimeoutMs} ms: ask for less, or for a shorter window`);
        yield chunk;
        if (isRenewed(chunk)) startMs = nowMs();
      }
    } finally {
      leave(res);
    }
  }

  return {
    async enter(res, { keepsEvents = false, isSmall = false } = {}) {
      // This slot comes first, because an answer that waits for it must not occupy a scan's slot.
      if (keepsEvents && !(await keeping.enter(res))) refuse(res, 'busy', res.closed ? GONE : TOO_MANY_KEEPING);
      await takeSlot(res, isSmall ? small : scanning);
      const beganMs = nowMs();
      return {
        limitWhole: (chunks) => limitChunks(res, beganMs, chunks, () => false),
        limitStream: (chunks) => limitChunks(res, beganMs, chunks, (chunk) => chunk.length > 0),
        reportGathered: (bytes) => unsent?.gather(res, bytes),
        endKeeping: () => keeping.leave(res),
      };
    },
  };
}

/* The slots of answers, and the queue of answers that wait for a slot, in order of arrival. */

interface Slots {
  readonly running: ReadonlySet<Response>;
  /**
   * Resolves to whether the answer has a slot: false if the queue is full, the wait was too long or the client has
   * disconnected. The slot is released by `leave`, at the latest when the answer ends.
   */
  enter(res: Response): Promise<boolean>;
  leave(res: Response): void;
}

interface SlotsOptions {
  /** Whether another answer must wait, given the answers that are running. */
  isFull: (running: ReadonlySet<Response>) => boolean;
  waitMsMax: number;
  /** Maximum number of answers in the queue. */
  waitingMax: number;
  onSlot?: (res: Response) => void;
}

/** Interval at which the gate checks for free slots, because a slot may become free without an event. */
const POLL_INTERVAL_MS = 100;

function createSlots({ isFull, waitMsMax, waitingMax, onSlot }: SlotsOptions): Slots {
  const running = new Set<Response>();
  const waiting = new Set<() => void>();
  let polling: NodeJS.Timeout | undefined;

  function leave(res: Response): void {
    if (running.delete(res)) wakeNext();
  }

  /** Wakes waiting answers while slots are free. Waking all waiting answers at once would cost more than a scan. */
  function wakeNext(): void {
    for (const wake of waiting) {
      if (isFull(running)) return;
      wake();
    }
  }

  function poll(): void {
    wakeNext();
    if (waiting.size > 0) return;
    clearInterval(polling);
    polling = undefined;
  }

  function take(res: Response): void {
    running.add(res);
    onSlot?.(res);
    res.once('close', () => leave(res));
  }

  function waitForSlot(res: Response): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (mine: boolean) => {
        clearTimeout(timer);
        waiting.delete(wake);
        res.off('close', giveUp);
        if (mine) take(res);
        resolve(mine);
      };
      const wake = () => settle(true);
      const giveUp = () => settle(false);
      const timer = setTimeout(() => settle(!isFull(running)), waitMsMax);
      res.once('close', giveUp);
      waiting.add(wake);
      polling ??= setInterval(poll, POLL_INTERVAL_MS);
    });
  }

  return {
    running,
    leave,
    async enter(res) {
      // Answers that already wait come first.
      wakeNext();
      // The client has disconnected: `close`, which releases a slot, would never be emitted again.
      if (res.closed) return false;
      if (waiting.size > 0 || isFull(running)) return waiting.size < waitingMax && waitForSlot(res);
      take(res);
      return true;
    },
  };
}
