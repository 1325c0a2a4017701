/**
 * Live streams last as long as their clients like, and most of the time have nothing to send, so none of them ever looks
 * stalled. All together they may take half of the connections: the others are left for answers that end.
 */
import type { Response } from 'express';
import { type ErrorCode, Problem } from '../../problem.ts';

export const STREAMS_MAX = 512;

export interface StreamRoom {
  /** Counts the answer as a stream until it closes; throws a Problem when there are enough. */
  enter(res: Response, code: ErrorCode): void;
}

export function createStreamRoom(streamsMax: number = STREAMS_MAX): StreamRoom {
  let count = 0;
  return {
    enter(res, code) {
      // It would never close again.
      if (res.closed) throw new Problem('busy', 'the client has gone');
      if (count >= streamsMax) throw new Problem(code, `${streamsMax} live streams are open already`);
      count++;
      res.once('close', () => count--);
    },
  };
}
