/** A long answer, line by line, at the pace of whoever reads it. */
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';

/** Whether this connection still has a reader. */
export function isOpen(res: Response): boolean {
  return !res.destroyed && !res.closed;
}

/**
 * Asks for a piece when the last but one is with the kernel, so that it may lie in the same memory, and for none after
 * the client has gone. Pieces should be short: between them the event loop serves others.
 */
export async function sendNdjson(
  res: Response,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  trailers: () => Record<string, string> = () => ({}),
): Promise<void> {
  res.status(200).type('application/x-ndjson');
  res.flushHeaders();
  let sending = Promise.resolve();
  for await (const piece of pieces) {
    await sending;
    if (piece.length > 0) sending = written(res, piece);
    await setImmediate();
    if (!isOpen(res)) return;
  }
  res.addTrailers(trailers());
  res.end();
}

/** Resolves when the bytes are not needed any more. */
async function written(res: Response, bytes: Uint8Array): Promise<void> {
  if (!isOpen(res)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = () => resolve();
  res.once('close', done);
  res.write(bytes, done);
  await promise;
  res.off('close', done);
}
