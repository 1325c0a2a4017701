/** Sends long answers in chunks, as fast as the client reads. */

import type { Response } from 'express';
import { yieldToEventLoop } from '../base/event_loop.ts';

const AT_ONCE_BYTES_MAX = 128 * 1024;

/** Whether the answer's connection still has a reader. */
export function isOpen(res: Response): boolean {
  return !res.destroyed && !res.closed;
}

type Pieces = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

export function sendNdjson(
  res: Response,
  pieces: Pieces,
  trailers?: () => Promise<Record<string, string>>,
): Promise<void> {
  return sendLines(res, 'application/x-ndjson', pieces, trailers);
}

/**
 * Requests a new chunk once the last chunk but one has reached the kernel, so that the new chunk may reuse that memory.
 * Stops when the client has disconnected. Chunks should be short, because the event loop serves other requests between
 * them.
 */
export async function sendLines(
  res: Response,
  mediaType: string,
  pieces: Pieces,
  trailers: () => Promise<Record<string, string>> = async () => ({}),
): Promise<void> {
  res.status(200).type(mediaType);
  res.flushHeaders();
  let sending = Promise.resolve();
  for await (const piece of pieces) {
    await sending;
    if (piece.length > 0) sending = writePiece(res, piece);
    await yieldToEventLoop(res);
    if (!isOpen(res)) return;
  }
  res.addTrailers(await trailers());
  res.end();
}

/**
 * Sends an answer of known size. Each chunk is released once it has reached the kernel; `onLeft` gets the number of
 * bytes that have not been written yet.
 */
export async function sendPieces(
  res: Response,
  pieces: Uint8Array[],
  onLeft: (bytes: number) => void = () => {},
): Promise<void> {
  let left = pieces.reduce((sum, { length }) => sum + length, 0);
  res.status(200).set('Content-Length', String(left));
  if (left <= AT_ONCE_BYTES_MAX) {
    res.end(Buffer.concat(pieces));
    return onLeft(0);
  }
  pieces.reverse();
  for (let piece = pieces.pop(); piece && isOpen(res); piece = pieces.pop()) {
    left -= piece.length;
    onLeft(left);
    await writePiece(res, piece);
  }
  res.end();
}

/** Resolves when the bytes are no longer needed. */
async function writePiece(res: Response, bytes: Uint8Array): Promise<void> {
  if (!isOpen(res)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = () => resolve();
  res.once('close', done);
  res.write(bytes, done);
  await promise;
  res.off('close', done);
}
