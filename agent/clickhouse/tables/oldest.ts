/**
 * The oldest kept time. Events that began before it were dropped, except for events that pins keep. The time is written
 * before anything is dropped, and readers cache it only for a moment.
 */
import type { Connection } from '../connection/connection.ts';
import { readValue, writeValue } from './meta.ts';

/**
 * Maximum time for which a reader may cache the oldest kept time. Retention drops rows only when this time has passed,
 * so that all readers know the new value.
 */
export const REMEMBERED_MS_MAX = 1000;

const KEY = 'oldest_ns';

/** Reads the oldest kept time; returns 0 if nothing has been dropped yet. Throws a ServerError. */
export async function readOldest(connection: Connection): Promise<bigint> {
  const value = await readValue(connection, KEY);
  return value !== undefined && /^\d{1,20}$/.test(value) ? BigInt(value) : 0n;
}

/** Raises the oldest kept time, which never decreases. Throws a ServerError. */
export async function raiseOldest(connection: Connection, oldestNs: bigint, nowNs: bigint): Promise<void> {
  if (oldestNs > (await readOldest(connection))) await writeValue(connection, KEY, String(oldestNs), nowNs);
}

/** Returns a function that reads the oldest kept time and caches it for `REMEMBERED_MS_MAX`. */
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
