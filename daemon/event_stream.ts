/** Server-sent events: what a frame looks like, and what a response says before the first one. */
import type { ServerResponse } from 'node:http';
import type { Response } from 'express';

/** How long a client waits before it connects again. */
export const RETRY_MS = 2000;
export const HEARTBEAT = ': hb\n\n';

/** Where frames go. `drain` is told after a `write` that gave false. */
export interface Sink extends Pick<ServerResponse, 'end' | 'destroy' | 'writableLength'> {
  write(frames: string | Buffer): boolean;
  on(event: 'close' | 'drain' | 'error', listener: () => void): unknown;
}

/** `json` has no raw line breaks, which is all that could break a frame; JSON.stringify never leaves one. */
export function formatFrame(kind: string, json: string, id?: number | string): string {
  return `${id === undefined ? frameStart(kind) : frameStart(kind) + BEFORE_ID + id}${BEFORE_JSON}${json}${FRAME_END}`;
}

export const frameStart = (kind: string): string => `event: ${kind}`;
export const BEFORE_ID = '\nid: ';
export const BEFORE_JSON = '\ndata: ';
export const FRAME_END = '\n\n';

/** Answers, and gives where the frames go. */
export function openEventStream(res: Response): Sink {
  res.status(200).set({
    'Cache-Control': 'no-store',
    // nginx would hold frames back.
    'X-Accel-Buffering': 'no',
  });
  // Express would add a charset, which the format does not have.
  res.setHeader('Content-Type', 'text/event-stream');
  // The stream ends with its connection: chunks would double the writes, and say nothing that a frame does not.
  res.useChunkedEncodingByDefault = false;
  res.flushHeaders();
  return sinkOf(res);
}

/**
 * The socket itself. A response would hold each write back to the end of the turn of the event loop, when all sessions
 * that ring now have had their turn, and keep lists of what it holds back: a third of what the garbage collector had to do.
 */
function sinkOf(res: Response): Sink {
  const { socket } = res;
  // Another answer goes before it on this connection.
  if (!socket) return res;
  return {
    get writableLength() {
      return socket.writableLength;
    },
    write: (frames) => socket.write(frames),
    end: res.end.bind(res),
    destroy: res.destroy.bind(res),
    on: (event, listener) => (event === 'drain' ? socket : res).on(event, listener),
  };
}
