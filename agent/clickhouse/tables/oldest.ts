/**
 * The oldest kept time: events that began before it were dropped, except those that pins keep. The time is written
 * before anything is dropped, and readers remember it for a moment only.
 */
import type { Connection } from '../connection/connection.ts';
import { readValue, writeValue } from './meta.ts';

/** How long a reader may remember the time. Rows are dropped when all readers know the new one. */
export const REMEMBERED_MS_MAX = 1000;

const KEY = 'oldest_ns';

/** Returns 0 if nothing was dropped yet. Throws a ServerError. */
export async function readOldest(connection: Connection): Promise<bigint> {
  const value = await readValue(connection, KEY);
  return value !== undefined && /^\d{1,20}$/.test(value) ? BigInt(value) : 0n;
}

/** The time only grows. Throws a ServerError. */
export async function raiseOldest(connection: Connection, oldestNs: bigint, nowNs: bigint): Promise<void> {
  if (oldestNs > (await readOldest(connection))) await writeValue(connection, KEY, String(oldestNs), nowNs);
}

/** Reads the time again when it may have changed. */
export function createOldestReader(connection: Connection): () => Promise<bigint> {
  let [known, readMs] = [Promise.resolve(0n), Number.NEGATIVE_INFINITY];
  return () => {
    const nowMs = performance.now();
    if (nowMs - readMs < REMEMBERED_MS_MAX) return known;
    readMs = nowMs;
    known = readOldest(connection);
    known.catch(() => {
      readMs = Number.NEGATIVE_INFINITY;
    });
    return known;
  };
}
