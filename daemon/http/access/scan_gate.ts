/** Limits the cost of queries: the number of concurrent scans, and the time until one yields something. */
import type { Response } from 'express';
import { favour } from '../../base/event_loop.ts';
import { Problem } from '../../base/problem.ts';
import type { Unsent } from './unsent.ts';

export const SCANS_MAX_DEFAULT = 16;
export const QUERY_TIMEOUT_MS_DEFAULT = 30_000;

/** Queue length per scan that may run. Queries further back would wait unacceptably long. */
export const WAITING_PER_SCAN = 4;
export const WAIT_MS_MAX_DEFAULT = 2_000;
/**
 * Limits for answers that keep events, or a set of transactions, until they have read the last event: an answer may
 * need 250 MB (see KEPT_EVENTS_MAX). These answers have a queue of their own and may wait longer, so that few of them
 * run at once and other answers are not refused because of them.
 */
export const KEEPING_MAX = 2;
export const KEEPING_WAITING_MAX = 16;
export const KEEPING_WAIT_MS_MAX = 10_000;
/**
 * Small answers wait in a queue of their own, and not for memory that others hold, because they have few rows and are
 * complete before they are sent. An answer that turns out to need more pieces than this continues like any other.
 */
export const SMALL_PIECES_MAX = 64;
/** Rows of a small answer. */
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
   * Pieces of an answer that is sent as a whole: throws if they take too long in total, counted from the start of the
   * turn.
   */
  limitWhole<Piece>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void>;
  /** Pieces of a stream: throws if nothing was found for too long. Time that the reader takes does not count. */
  limitStream<Piece extends { length: number }>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void>;
  /**
   * Reports bytes that the answer holds in memory until they are written; they count towards the limit for all answers.
   */
  reportGathered(bytes: number): void;
  /** Reports that the answer keeps no events any more, before its end. */
  endKeeping(): void;
}

export interface ScanGate {
  /** Waits a short while for a turn, or throws a Problem. The turn ends with the answer. */
  enter(res: Response, what?: { keepsEvents?: boolean; isSmall?: boolean }): Promise<Scan>;
}

interface Options {
  scansMax?: number;
  queryTimeoutMs?: number;
  /** Maximum time that a query waits for its turn. */
  waitMsMax?: number;
  /** Maximum time that an answer waits for a turn to keep events, before it waits for the query's turn. */
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

  /** An answer that waits for its reader does nothing, so it does not count as running. */
  function areEnough(running: ReadonlySet<Response>): boolean {
    let count = 0;
    for (const res of running) if (!res.writableNeedDrain && ++count >= scansMax) return true;
    return false;
  }

  const scanning = createTurns({
    // No event tells that a reader has fallen behind or that memory was released, so this is checked again and again.
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
      // An answer that waits for its turn to keep events must not take the turn of a scan meanwhile.
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

/* The turns of answers, and the line of answers that wait for a turn, in order of arrival. */

interface Turns {
  readonly running: ReadonlySet<Response>;
  /**
   * Resolves to whether the answer has a turn: false if the line is full, the wait was too long or the client has gone.
   * The turn ends with the answer, or before.
   */
  enter(res: Response): Promise<boolean>;
  leave(res: Response): void;
}

interface TurnsOptions {
  /** Whether another answer has to wait while these run. */
  isFull: (running: ReadonlySet<Response>) => boolean;
  waitMsMax: number;
  /** Maximum number of answers in the line. */
  waitingMax: number;
  onTurn?: (res: Response) => void;
}

/** The gate looks again this often, as room may appear without an event. */
const LOOK_INTERVAL_MS = 100;

function createTurns({ isFull, waitMsMax, waitingMax, onTurn }: TurnsOptions): Turns {
  const running = new Set<Response>();
  const waiting = new Set<() => void>();
  let looking: NodeJS.Timeout | undefined;

  function leave(res: Response): void {
    if (running.delete(res)) wakeNext();
  }

  /** Wakes waiting answers while there is room. Waking all, to check for themselves, would cost more than a scan. */
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
      // Answers that already wait come first.
      wakeNext();
      // The client is gone: `close`, which ends a turn, would never be emitted again.
      if (res.closed) return false;
      if (waiting.size > 0 || isFull(running)) return waiting.size < waitingMax && turn(res);
      take(res);
      return true;
    },
  };
}
