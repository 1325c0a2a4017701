/**
 * Limits the number of live streams. A client may keep a stream open forever, and a stream that has nothing to send is
 * never closed as stalled. Together, streams may use half of the connections; the rest is reserved for other answers.
 */
import type { Response } from 'express';
import { type ErrorCode, Problem } from '../../base/problem.ts';

export const STREAMS_MAX = 512;

export interface StreamRoom {
  /** Counts the answer as a stream until it closes; throws a Problem if there are too many streams. */
  enter(res: Response, code: ErrorCode): void;
}

export function createStreamRoom(streamsMax: number = STREAMS_MAX): StreamRoom {
  let count = 0;
  return {
    enter(res, code) {
      // If the client has disconnected, `close` would never be emitted again.
      if (res.closed) throw new Problem('busy', 'the client has gone');
      if (count >= streamsMax) throw new Problem(code, `${streamsMax} live streams are open already`);
      count++;
      res.once('close', () => count--);
    },
  };
}
