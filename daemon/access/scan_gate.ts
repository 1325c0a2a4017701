/** What a query may cost: so many scans at once, and so much time until one has something to say. */
import type { Response } from 'express';
import { Problem } from '../errors.ts';

export const SCANS_MAX_DEFAULT = 16;
export const QUERY_TIMEOUT_MS_DEFAULT = 30_000;

/** For each scan that may run. Those behind would wait longer than anybody wants to. */
const WAITING_PER_SCAN = 4;
const WAIT_MS_MAX_DEFAULT = 2_000;
const LOOK_INTERVAL_MS = 100;
const RETRY_AFTER_S = 2;

export interface Scan {
  /** Pieces of an answer that is given as a whole: throws when they take too long together, since the turn came. */
  whole<Piece>(pieces: Iterable<Piece>): Generator<Piece, void>;
  /** Pieces of a stream: throws when nothing was found for too long. Time that the reader takes does not count. */
  stream<Piece extends { length: number }>(pieces: Iterable<Piece>): Generator<Piece, void>;
}

export interface ScanGate {
  /** Waits its turn, for a short while; a Problem when it does not come. The turn ends with the answer. */
  enter(res: Response): Promise<Scan>;
}

interface Options {
  scansMax?: number;
  queryTimeoutMs?: number;
  /** How long a query waits for its turn. */
  waitMsMax?: number;
  nowMs: () => number;
}

export function createScanGate({
  scansMax = SCANS_MAX_DEFAULT,
  queryTimeoutMs = QUERY_TIMEOUT_MS_DEFAULT,
  waitMsMax = WAIT_MS_MAX_DEFAULT,
  nowMs,
}: Options): ScanGate {
  const running = new Set<Response>();
  const waiting = new Set<() => void>();

  /** One whose reader is behind does nothing: it holds up nobody. */
  const isFull = () => [...running].filter((res) => !res.writableNeedDrain).length >= scansMax;

  function leave(res: Response): void {
    if (!running.delete(res)) return;
    for (const wake of waiting) wake();
  }

  function takeTurn(res: Response): void {
    running.add(res);
    res.once('close', () => leave(res));
  }

  function turn(res: Response): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (mine: boolean) => {
        clearTimeout(timer);
        clearInterval(looking);
        waiting.delete(wake);
        res.off('close', giveUp);
        if (mine) takeTurn(res);
        resolve(mine);
      };
      const wake = () => {
        if (!isFull()) settle(true);
      };
      const giveUp = () => settle(false);
      // A reader that falls behind tells nobody.
      const looking = setInterval(wake, LOOK_INTERVAL_MS);
      const timer = setTimeout(() => settle(!isFull()), waitMsMax);
      res.once('close', giveUp);
      waiting.add(wake);
    });
  }

  function refuse(res: Response, code: 'busy' | 'query_timeout', detail: string): never {
    if (!res.headersSent) res.set('Retry-After', String(RETRY_AFTER_S));
    throw new Problem(code, detail);
  }

  function* within<Piece>(
    res: Response,
    beganMs: number,
    pieces: Iterable<Piece>,
    isRenewed: (piece: Piece) => boolean,
  ) {
    let startMs = beganMs;
    try {
      for (const piece of pieces) {
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
      // Those that wait come first.
      for (const wake of waiting) wake();
      // Its client has gone: it would never close again.
      if (res.closed) refuse(res, 'busy', 'nobody waits for the answer');
      if (waiting.size === 0 && !isFull()) takeTurn(res);
      else if (waiting.size >= scansMax * WAITING_PER_SCAN || !(await turn(res)))
        refuse(res, 'busy', `${scansMax} queries are running already: try again`);
      const beganMs = nowMs();
      return {
        whole: (pieces) => within(res, beganMs, pieces, () => false),
        stream: (pieces) => within(res, beganMs, pieces, (piece) => piece.length > 0),
      };
    },
  };
}
