/** Limits the cost of queries: the number of concurrent scans, and the time until one yields something. */
import type { Response } from 'express';
import { Problem } from '../../problem.ts';
import type { Unsent } from './unsent.ts';

export const SCANS_MAX_DEFAULT = 16;
export const QUERY_TIMEOUT_MS_DEFAULT = 30_000;

/** Queue length per scan that may run. Queries further back would wait unacceptably long. */
export const WAITING_PER_SCAN = 4;
export const WAIT_MS_MAX_DEFAULT = 2_000;
const LOOK_INTERVAL_MS = 100;
const RETRY_AFTER_S = 2;
/**
 * Size limit of an answer that is sent as a whole; an answer that can be continued ends early with a cursor instead.
 */
export const WHOLE_BYTES_MAX = 8 * 1024 * 1024;
const NO_MEMORY = 'answers that their clients do not read hold all the memory there is for them: try again';

export interface Scan {
  /**
   * Pieces of an answer that is sent as a whole: throws if they take too long in total, counted from the start of the
   * turn.
   */
  whole<Piece>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void>;
  /** Pieces of a stream: throws if nothing was found for too long. Time that the reader takes does not count. */
  stream<Piece extends { length: number }>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void>;
  /**
   * Reports bytes that the answer holds in memory until they are written; they count towards the limit for all answers.
   */
  gathered(bytes: number): void;
}

export interface ScanGate {
  /** Waits a short while for a turn, or throws a Problem. The turn ends with the answer. */
  enter(res: Response): Promise<Scan>;
}

interface Options {
  scansMax?: number;
  queryTimeoutMs?: number;
  /** Maximum time that a query waits for its turn. */
  waitMsMax?: number;
  /** Memory shared by all long answers; unlimited if omitted. */
  unsent?: Pick<Unsent, 'hold' | 'gather' | 'makeRoom'> | undefined;
  nowMs: () => number;
}

export function createScanGate({
  scansMax = SCANS_MAX_DEFAULT,
  queryTimeoutMs = QUERY_TIMEOUT_MS_DEFAULT,
  waitMsMax = WAIT_MS_MAX_DEFAULT,
  unsent,
  nowMs,
}: Options): ScanGate {
  const running = new Set<Response>();
  const waiting = new Set<() => void>();
  let looking: NodeJS.Timeout | undefined;

  /** An answer that waits for its reader does nothing, so it does not count as running. */
  function areEnough(): boolean {
    let count = 0;
    for (const res of running) if (!res.writableNeedDrain && ++count >= scansMax) return true;
    return false;
  }
  const isFull = () => areEnough() || unsent?.makeRoom() === false;

  function leave(res: Response): void {
    if (!running.delete(res)) return;
    wakeNext();
  }

  /**
   * Wakes queries in order of arrival while there is room. Waking each to check for itself would cost more than a scan.
   */
  function wakeNext(): void {
    for (const wake of waiting) {
      if (isFull()) return;
      wake();
    }
  }

  function look(): void {
    wakeNext();
    if (waiting.size > 0) return;
    clearInterval(looking);
    looking = undefined;
  }

  function takeTurn(res: Response): void {
    running.add(res);
    unsent?.hold(res);
    res.once('close', () => leave(res));
  }

  function turn(res: Response): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (mine: boolean) => {
        clearTimeout(timer);
        waiting.delete(wake);
        res.off('close', giveUp);
        if (mine) takeTurn(res);
        resolve(mine);
      };
      const wake = () => settle(true);
      const giveUp = () => settle(false);
      const timer = setTimeout(() => settle(!isFull()), waitMsMax);
      res.once('close', giveUp);
      waiting.add(wake);
      // A reader that falls behind causes no event, so this polls.
      looking ??= setInterval(look, LOOK_INTERVAL_MS);
    });
  }

  function refuse(res: Response, code: 'busy' | 'query_timeout', detail: string): never {
    if (!res.headersSent) res.set('Retry-After', String(RETRY_AFTER_S));
    throw new Problem(code, detail);
  }

  async function* within<Piece>(
    res: Response,
    beganMs: number,
    pieces: AsyncIterable<Piece>,
    isRenewed: (piece: Piece) => boolean,
  ): AsyncGenerator<Piece, void> {
    let startMs = beganMs;
    try {
      for await (const piece of pieces) {
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
    async enter(res) {
      // Queries that already wait come first.
      wakeNext();
      // The client is gone: `close`, which ends a turn, would never be emitted again.
      if (res.closed) refuse(res, 'busy', 'the client has gone');
      if (waiting.size === 0 && !isFull()) takeTurn(res);
      else if (waiting.size >= scansMax * WAITING_PER_SCAN || !(await turn(res)))
        refuse(res, 'busy', areEnough() ? `${scansMax} queries are running already: try again` : NO_MEMORY);
      const beganMs = nowMs();
      return {
        whole: (pieces) => within(res, beganMs, pieces, () => false),
        stream: (pieces) => within(res, beganMs, pieces, (piece) => piece.length > 0),
        gathered: (bytes) => unsent?.gather(res, bytes),
      };
    },
  };
}
