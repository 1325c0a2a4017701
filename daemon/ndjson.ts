/** A long answer, line by line, at the pace of whoever reads it. */
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { stringify } from './json.ts';

/** Whether this connection still has a reader. */
export function isOpen(res: Response): boolean {
  return !res.destroyed && !res.closed;
}

/**
 * Asks for a piece when the one before is with the kernel, and for none after the client has gone. Pieces should be
 * short: between them the event loop serves others.
 */
export async function sendNdjson(res: Response, pieces: Iterable<readonly unknown[]>): Promise<void> {
  res.status(200).type('application/x-ndjson');
  res.flushHeaders();
  for (const piece of pieces) {
    const text = piece.map((value) => `${stringify(value)}\n`).join('');
    if (text !== '' && !res.write(text)) await drained(res);
    await setImmediate();
    if (!isOpen(res)) return;
  }
  res.end();
}

async function drained(res: Response): Promise<void> {
  if (!isOpen(res)) return;
  const gone = new AbortController();
  const onClose = () => gone.abort();
  res.once('close', onClose);
  try {
    await once(res, 'drain', { signal: gone.signal });
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  } finally {
    res.off('close', onClose);
  }
}
