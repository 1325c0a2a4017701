/**
 * Pins a transaction: retention then keeps the transaction's events, and all events of the node in a period before it.
 * A server of the recording writes pins while the agent writes events, so writing a pin is one short database
 * transaction.
 */
import { existsSync } from 'node:fs';
import type Database from 'better-sqlite3';
import { createContextFinder } from '../format/context_finder.ts';
import { openDatabase } from '../format/database.ts';
import { RecordingError, runWithRecordingErrors } from '../format/errors.ts';
import { PIECES_MAX } from '../format/pieces.ts';
import { openLog } from '../format/recording_log.ts';
import { checkFormat, toStored } from '../format/schema.ts';
import { findPinnedSegments, HAS_LAST_EVENT } from './pinned_segments.ts';

/** Time to wait while the agent commits. The server of the recording is blocked meanwhile. */
const BUSY_TIMEOUT_MS = 500;

/** Maximum share of the recording's size limit for pinned segments; the rest is for new events. */
export const PINNED_SHARE_MAX = 0.5;

const PIN = `
INSERT INTO pin (transaction_id, from_ns, to_ns, pinned_ns) VALUES (:transactionId, :fromNs, :toNs, :pinnedNs)
ON CONFLICT (transaction_id) DO UPDATE SET from_ns = min(from_ns, excluded.from_ns)
RETURNING from_ns`;

const UNPIN = 'DELETE FROM pin WHERE transaction_id = ?';

/**
 * SQL for the start of a transaction's first event. A summary outlives the events of its transaction for some time, so
 * the query ignores transactions whose events are gone.
 */
const FIRST_EVENT = `
SELECT min(first_timestamp_ns)
FROM transaction_summary
WHERE transaction_key IN (SELECT value FROM json_each(:keys))
  AND (
    ${HAS_LAST_EVENT}
    OR EXISTS (
      SELECT 1 FROM json_each(:contexts)
      JOIN segment_context ON segment_context.context_id = json_each.value
      JOIN segment USING (first_number)
    )
  )`;

const LIMIT = "SELECT value FROM meta WHERE key = 'retain_bytes'";

const BYTES = `
SELECT
  (SELECT coalesce(sum(length(data)), 0) FROM segment WHERE first_number = :first)
  + (
    SELECT coalesce(sum(length(data)), 0) FROM segment_piece
    WHERE piece_key >= :first * ${PIECES_MAX} AND piece_key < (:first + 1) * ${PIECES_MAX}
  )`;

export interface PinRequest {
  transactionId: string;
  /** Length of the period before the transaction's first event. Retention also keeps the events in this period. */
  beforeNs: bigint;
  nowNs: bigint;
}

export interface PinResult {
  /** Start of the period that is kept, in nanoseconds since the epoch. */
  fromNs: bigint;
  /** Total size of the segments that all pins of the recording keep, in bytes. */
  pinnedBytes: number;
}

/**
 * Pins a transaction. Returns undefined if the recording does not contain the transaction. Pinning a transaction again
 * keeps the longer of the two periods before it.
 * @throws RecordingError recording_not_writable, recording_busy, pins_full ...
 */
export function pinTransaction(path: string, { transactionId, beforeNs, nowNs }: PinRequest): PinResult | undefined {
  return runWriteTransaction(path, (database) => {
    const firstNs = readFirstEventNs(database, transactionId);
    if (firstNs === undefined) return undefined;
    const pin = database.prepare<[object], bigint>(PIN).pluck().safeIntegers();
    const times = { fromNs: toStored(firstNs - beforeNs), toNs: firstNs, pinnedNs: toStored(nowNs) };
    const fromNs = pin.get({ transactionId, ...times })!;
    const pinnedBytes = sumSegmentBytes(database, findPinnedSegments(database).segments);
    const limit = database.prepare<[], number>(LIMIT).pluck().get();
    if (limit !== undefined && pinnedBytes > limit * PINNED_SHARE_MAX) throw createPinsFullError(pinnedBytes, limit);
    return { fromNs, pinnedBytes };
  });
}

/** Removes the pin of a transaction; returns whether there was a pin. */
export function unpinTransaction(path: string, transactionId: string): boolean {
  return runWriteTransaction(path, (database) => database.prepare(UNPIN).run(transactionId).changes > 0);
}

/**
 * Syncs the recording's log in another thread. Once the promise resolves, all pins and the events that they keep
 * survive a power loss.
 * @throws RecordingError recording_io_error, recording_full
 */
export async function syncPins(path: string): Promise<void> {
  // Without a log, all pins are in the file itself, and the file was synced.
  if (!existsSync(`${path}-wal`)) return;
  const log = openLog(path);
  const failure = await new Promise<RecordingError | undefined>((done) => log.beginSync(done));
  log.close();
  if (failure) throw failure;
}

function runWriteTransaction<T>(path: string, work: (database: Database.Database) => T): T {
  return runWithRecordingErrors(path, () => {
    const database = openDatabase(path, { fileMustExist: true, timeout: BUSY_TIMEOUT_MS });
    try {
      checkFormat(database, path);
      return database.transaction(() => work(database)).immediate();
    } finally {
      database.close();
    }
  });
}

function readFirstEventNs(database: Database.Database, transactionId: string): bigint | undefined {
  const contexts = createContextFinder(database).findByTransaction(transactionId);
  const first = database.prepare<[object], bigint | null>(FIRST_EVENT).pluck().safeIntegers();
  return (
    first.get({
      keys: JSON.stringify([...new Set(contexts.map(({ transaction_key }) => transaction_key))]),
      contexts: JSON.stringify(contexts.map(({ context_id }) => context_id)),
    }) ?? undefined
  );
}

function sumSegmentBytes(database: Database.Database, segments: ReadonlySet<number>): number {
  const bytes = database.prepare<[object], number>(BYTES).pluck();
  return [...segments].reduce((sum, first) => sum + bytes.get({ first })!, 0);
}

function createPinsFullError(pinnedBytes: number, limit: number): RecordingError {
  const formatMebibytes = (bytes: number) => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  return new RecordingError(
    'pins_full',
    `pinned transactions would take ${formatMebibytes(pinnedBytes)} of the recording's ${formatMebibytes(limit)}, at most half is allowed: unpin others, export them, pin less of what came before, or raise --retain-bytes`,
  );
}
