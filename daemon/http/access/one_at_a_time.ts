/**
 * Answers the requests of a connection one at a time. A client that pipelines gets its answers one by one, so working at
 * all of them at once helps nobody, and a thousand clients would have it done for a hundred requests each:
 *
 *   connection a   [a1] a2 a3 ... a32      one more, and the connection is closed
 *   connection b   [b1]                    beside a1
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { begin } from '../../base/event_loop.ts';

/** Requests of one connection that may wait for the answers before them. */
export const PIPELINED_MAX = 32;

interface Options {
  /** Whether it costs next to nothing, and so begins at once, unless it has waited for other answers. */
  isCheap?: (req: IncomingMessage) => boolean;
  /** Called for a connection that is closed because it sent too many requests. */
  onFlooded: () => void;
}

type Request = [req: IncomingMessage, res: ServerResponse];

export function answerOneAtATime(
  listener: RequestListener,
  { isCheap = () => false, onFlooded }: Options,
): RequestListener {
  /** The requests of each connection that is being answered, except for the one that is answered. */
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

  /** The client may have gone meanwhile: `close` would never be emitted again. */
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
 * Makes Node's parser drop what it has read of a connection that is being closed: 64 KiB hold 2600 requests, for each of
 * which it would make objects, which takes 40 ms.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: { onIncoming: () => number } | null };
  // The number makes it skip all that follows, as when a connection goes over to another protocol.
  if (parser) parser.onIncoming = () => 2;
}
