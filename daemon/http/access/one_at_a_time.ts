/**
 * Answers the requests of a connection one at a time. A client that pipelines requests receives their answers in order,
 * so parallel answers would not help the client. They would only let each client load the daemon with many requests:
 *
 *   connection a   [a1] a2 a3 ... a32      one more, and the connection is closed
 *   connection b   [b1]                    at the same time as a1
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { begin } from '../../base/event_loop.ts';

/** Maximum number of requests of one connection that may wait for earlier answers. */
export const PIPELINED_MAX = 32;

interface Options {
  /**
   * Whether a request costs next to nothing. A cheap request begins at once, unless its connection has an earlier
   * request that is not answered yet.
   */
  isCheap?: (req: IncomingMessage) => boolean;
  /** Called for a connection that is closed because it sent too many requests. */
  onFlooded: () => void;
}

type Request = [req: IncomingMessage, res: ServerResponse];

export function answerOneAtATime(
  listener: RequestListener,
  { isCheap = () => false, onFlooded }: Options,
): RequestListener {
  /** Maps each connection to the requests that wait until an earlier request is answered. */
  const behind = new WeakMap<Socket, Request[]>();

  function take([req, res]: Request, line: Request[]): void {
    res.once('close', () => {
      const next = line.shift();
      if (!next || req.socket.destroyed) behind.delete(req.socket);
      else {
        take(next, line);
        begin(() => start(next));
      }
    });
  }

  /** Skips a request whose client has disconnected in the meantime, because `close` would never be emitted again. */
  function start([req, res]: Request): void {
    if (!res.closed) listener(req, res);
  }

  return (req, res) => {
    const line = behind.get(req.socket);
    if (!line) {
      const none: Request[] = [];
      behind.set(req.socket, none);
      take([req, res], none);
      if (isCheap(req)) listener(req, res);
      else begin(() => start([req, res]));
    } else if (line.length < PIPELINED_MAX) line.push([req, res]);
    else if (!req.socket.destroyed) {
      stopParsing(req.socket);
      req.socket.destroy();
      onFlooded();
    }
  };
}

/**
 * Makes Node's parser drop the data that it has read from a connection that is being closed: 64 KiB can contain 2600
 * requests, and creating their objects takes 40 ms.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: { onIncoming: () => number } | null };
  // The result 2 makes the parser skip all remaining data, as for a connection that switches to another protocol.
  if (parser) parser.onIncoming = () => 2;
}
