/** Sends long answers in chunks, as fast as the client reads. */

import type { Response } from 'express';
import { yieldToEventLoop } from '../base/event_loop.ts';

const AT_ONCE_BYTES_MAX = 128 * 1024;

/** Whether the client can still receive the answer. */
export function isOpen(res: Response): boolean {
  return !res.destroyed && !res.closed;
}

type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

export function sendNdjson(
  res: Response,
  chunks: Chunks,
  trailers?: () => Promise<Record<string, string>>,
): Promise<void> {
  return sendLines(res, 'application/x-ndjson', chunks, trailers);
}

/**
 * Sends the chunks. Chunk n + 1 is requested once chunk n - 1 has reached the kernel, so the two may share memory.
 * Stops when the client has disconnected. Chunks should be short, because the event loop serves other requests between
 * them.
 */
export async function sendLines(
  res: Response,
  mediaType: string,
  chunks: Chunks,
  trailers: () => Promise<Record<string, string>> = async () => ({}),
): Promise<void> {
  res.status(200).type(mediaType);
  res.flushHeaders();
  let sending = Promise.resolve();
  for await (const chunk of chunks) {
    await sending;
    if (chunk.length > 0) sending = writeChunk(res, chunk);
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
export async function sendChunks(
  res: Response,
  chunks: Uint8Array[],
  onLeft: (bytes: number) => void = () => {},
): Promise<void> {
  let left = chunks.reduce((sum, { length }) => sum + length, 0);
  res.status(200).set('Content-Length', String(left));
  if (left <= AT_ONCE_BYTES_MAX) {
    res.end(Buffer.concat(chunks));
    return onLeft(0);
  }
  chunks.reverse();
  for (let chunk = chunks.pop(); chunk && isOpen(res); chunk = chunks.pop()) {
    left -= chunk.length;
    onLeft(left);
    await writeChunk(res, chunk);
  }
  res.end();
}

/** Resolves when the kernel has the bytes, or when the connection is closed. */
async function writeChunk(res: Response, bytes: Uint8Array): Promise<void> {
  if (!isOpen(res)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = () => resolve();
  res.once('close', done);
  res.write(bytes, done);
  await promise;
  res.off('close', done);
}
