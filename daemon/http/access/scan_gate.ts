/** Limits the cost of queries: the number of concurrent scans, and the time until a scan yields something. */
import type { Response } from 'express';
import { favour } from '../../base/event_loop.ts';
import { Problem } from '../../base/problem.ts';
import type { Unsent } from './unsent.ts';

export const SCANS_MAX_DEFAULT = 16;
export const QUERY_TIMEOUT_MS_DEFAULT = 30_000;

/**
 * Maximum number of waiting queries per scan that may run. Queries further back in the queue would wait unacceptably
 * long.
 */
export const WAITING_PER_SCAN = 4;
export const WAIT_MS_MAX_DEFAULT = 2_000;
/**
 * Limits for answers that keep events, or a set of transactions, until they have read the last event: an answer may
 * need 250 MB (see KEPT_EVENTS_MAX). These answers have a separate queue and may wait longer. Therefore few of them run
 * at once, and other answers are not refused because of them.
 */
export const KEEPING_MAX = 2;
export const KEEPING_WAITING_MAX = 16;
export const KEEPING_WAIT_MS_MAX = 10_000;
/**
 * Small answers have a separate queue and do not wait for memory that other answers hold, because they have few rows
 * and are complete before they are sent. An answer that turns out to need more chunks than this continues like any
 * other answer.
 */
export const SMALL_PIECES_MAX = 64;
/** Maximum number of rows of a small answer. */
export const SMALL_ROWS_MAX = 100;
const RETRY_AFTER_S = 2;
/**
 * Size limit of an answer that is sent as a whole; an answer that can be continued ends early with a cursor instead.
 */
export const WHOLE_BYTES_MAX = 8 * 1024 * 1024;
const TOO_MANY_KEEPING =
  'others compare, or choose transactions by values of their events, and as many wait as may: try again';
const GONE = 'the client has gone';
const NO_MEMORY = 'answers that their clients do not read hold all the memory there is for them: try again';

export interface Scan {
  /**
   * Passes on the chunks of an answer that is sent as a whole. Throws if they take too long in total, measured from the
   * start of the answer's slot.
   */
  limitWhole<Piece>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void>;
  /**
   * Passes on the chunks of a stream. Throws if nothing was found for too long; the time that the reader takes does not
   * count.
   */
  limitStream<Piece extends { length: number }>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void>;
  /**
   * Reports bytes that the answer holds in memory until they are written; they count towards the limit for all answers.
   */
  reportGathered(bytes: number): void;
  /** Reports, before the end of the answer, that it no longer keeps any events. */
  endKeeping(): void;
}

export interface ScanGate {
  /** Waits a short time for a slot, or throws a Problem. The slot is released when the answer ends. */
  enter(res: Response, what?: { keepsEvents?: boolean; isSmall?: boolean }): Promise<Scan>;
}

interface Options {
  scansMax?: number;
  queryTimeoutMs?: number;
  /** Maximum time that a query waits for its slot. */
  waitMsMax?: number;
  /** Maximum time that an answer waits for a slot in which it may keep events, before it waits for the query's slot. */
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

  /** Whether enough answers are running. An answer that waits for its reader does nothing, so it does not count. */
  function areEnough(running: ReadonlySet<Response>): boolean {
    let count = 0;
    for (const res of running) if (!res.writableNeedDrain && ++count >= scansMax) return true;
    return false;
  }

  const scanning = createTurns({
    // No event signals that a reader has fallen behind or that memory was released, so this is checked periodically.
    isFull: (running) => areEnough(running) || unsent?.makeRoom() === false,
    waitMsMax,
    waitingMax: scansMax * WAITING_PER_SCAN,
    onTurn: (res) => unsent?.hold(res),
  });
  const small = createTurns({
    isFull: ({ size }) => size >= scansMax || unsent?.makeRoom({ isSmall: true }) === false,
    waitMsMax,
    waitingMax: scansMax * WAITING_PER_SCAN,
    onTurn: (res) => favour(res, true),
  });
  const keeping = createTurns({
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

  async function takeTurn(res: Response, turns: Turns): Promise<void> {
    if (await turns.enter(res)) return;
    keeping.leave(res);
    refuse(res, 'busy', res.closed ? GONE : areEnough(turns.running) ? tooManyScans : NO_MEMORY);
  }

  async function* limitPieces<Piece>(
    res: Response,
    beganMs: number,
    pieces: AsyncIterable<Piece>,
    isRenewed: (piece: Piece) => boolean,
  ): AsyncGenerator<Piece, void> {
    let startMs = beganMs;
    let count = 0;
    try {
      for await (const piece of pieces) {
        if (++count === SMALL_PIECES_MAX && small.running.has(res)) {
          small.leave(res);
          favour(res, false);
          await takeTurn(res, scanning);
        }
        if (nowMs() - startMs > queryTimeoutMs)
          refuse(res, 'query_timeout', `not done after ${queryTimeoutMs} ms: ask for less, or for a shorter window`);
        yield piece;
        if (isRenewed(piece)) startMs = nowMs();
      }
    } finally {
      leave(res);
    }
  }

  return {
    async enter(res, { keepsEvents = false, isSmall = false } = {}) {
      // While an answer waits for a slot in which it may keep events, it must not occupy the slot of a scan.
      if (keepsEvents && !(await keeping.enter(res))) refuse(res, 'busy', res.closed ? GONE : TOO_MANY_KEEPING);
      await takeTurn(res, isSmall ? small : scanning);
      const beganMs = nowMs();
      return {
        limitWhole: (pieces) => limitPieces(res, beganMs, pieces, () => false),
        limitStream: (pieces) => limitPieces(res, beganMs, pieces, (piece) => piece.length > 0),
        reportGathered: (bytes) => unsent?.gather(res, bytes),
        endKeeping: () => keeping.leave(res),
      };
    },
  };
}

/* The slots of answers, and the queue of answers that wait for a slot, in order of arrival. */

interface Turns {
  readonly running: ReadonlySet<Response>;
  /**
   * Resolves to whether the answer has a slot: false if the queue is full, the wait was too long or the client has
   * disconnected. The slot is released when the answer ends, or earlier.
   */
  enter(res: Response): Promise<boolean>;
  leave(res: Response): void;
}

interface TurnsOptions {
  /** Whether another answer has to wait while the `running` answers run. */
  isFull: (running: ReadonlySet<Response>) => boolean;
  waitMsMax: number;
  /** Maximum number of answers in the queue. */
  waitingMax: number;
  onTurn?: (res: Response) => void;
}

/** Interval at which the gate checks for room again, because room may appear without an event. */
const LOOK_INTERVAL_MS = 100;

function createTurns({ isFull, waitMsMax, waitingMax, onTurn }: TurnsOptions): Turns {
  const running = new Set<Response>();
  const waiting = new Set<() => void>();
  let looking: NodeJS.Timeout | undefined;

  function leave(res: Response): void {
    if (running.delete(res)) wakeNext();
  }

  /**
   * Wakes waiting answers while there is room. Waking all of them, so that each checks for itself, would cost more than
   * a scan.
   */
  function wakeNext(): void {
    for (const wake of waiting) {
      if (isFull(running)) return;
      wake();
    }
  }

  function look(): void {
    wakeNext();
    if (waiting.size > 0) return;
    clearInterval(looking);
    looking = undefined;
  }

  function take(res: Response): void {
    running.add(res);
    onTurn?.(res);
    res.once('close', () => leave(res));
  }

  function turn(res: Response): Promise<boolean> {
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
      looking ??= setInterval(look, LOOK_INTERVAL_MS);
    });
  }

  return {
    running,
    leave,
    async enter(res) {
      // Answers that are already waiting come first.
      wakeNext();
      // The client has disconnected: `close`, which releases a slot, would never be emitted again.
      if (res.closed) return false;
      if (waiting.size > 0 || isFull(running)) return waiting.size < waitingMax && turn(res);
      take(res);
      return true;
    },
  };
}
