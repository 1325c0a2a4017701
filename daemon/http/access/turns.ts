/** Turns that answers take, and the line of those that wait for one, in order of arrival. */
import type { Response } from 'express';

export interface Turns {
  readonly running: ReadonlySet<Response>;
  /**
   * Resolves to whether the answer has a turn: it has none where the line is full, the wait was too long or its client
   * has gone. The turn ends with the answer, or before.
   */
  enter(res: Response): Promise<boolean>;
  leave(res: Response): void;
}

export interface TurnsOptions {
  /** Whether there is no turn for another answer, beside these. */
  isFull: (running: ReadonlySet<Response>) => boolean;
  waitMsMax: number;
  /** Length of the line. */
  waitingMax: number;
  onTurn?: (res: Response) => void;
}

/** What makes room without an event is noticed after this time. */
const LOOK_INTERVAL_MS = 100;

export function createTurns({ isFull, waitMsMax, waitingMax, onTurn }: TurnsOptions): Turns {
  const running = new Set<Response>();
  const waiting = new Set<() => void>();
  let looking: NodeJS.Timeout | undefined;

  function leave(res: Response): void {
    if (running.delete(res)) wakeNext();
  }

  /** Wakes while there is room. Waking each to check for itself would cost more than a scan. */
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
