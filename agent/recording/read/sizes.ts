/** What no recording exceeds. One that does comes from somebody else, and is refused before its values are read. */
import type Database from 'better-sqlite3';
import { BATCH_SIZE, batchesOf } from '../format/context_hash.ts';
import { corrupt } from '../format/errors.ts';
import { isDamage } from './salvage.ts';

/** Of a name, a path, an identifier: 64 KiB. */
export const TEXT_MAX = 65_536;

/** Of a cause, an event type, a kind. */
export const WORD_MAX = 64;

/** Bytes of each column that has texts or blobs; of `meta` too, which has few rows. */
const LIMITS: readonly (readonly [table: string, column: string, bytes: number])[] = [
  ['meta', 'value', TEXT_MAX],
  ['name', 'text', TEXT_MAX],
  ['file', 'path', TEXT_MAX],
  ['context', 'transaction_id', TEXT_MAX],
  ['context', 'trace_id', TEXT_MAX],
  ['context', 'span_id', TEXT_MAX],
  ['transaction_summary', 'services', TEXT_MAX],
  ['loss', 'cause', WORD_MAX],
  ['loss', 'event_type', WORD_MAX],
  ['clock', 'kind', WORD_MAX],
  ['segment', 'services', 4 * TEXT_MAX],
  ['segment', 'data', 8 * 1024 * 1024],
  ['segment_piece', 'data', 8 * 1024 * 1024],
];

/** Of tables that are read as a whole. An agent that loses events at every drain notes so many losses in five hours. */
const ROWS_MAX = 100_000;
const WHOLE_TABLES = ['meta', 'column_name', 'service', 'pin', 'loss', 'clock'];

/**
 * A lookup by text asks each batch of hashes. Contexts are numbered without gaps, and those that pins have kept, long
 * after their neighbours went, are in few batches.
 */
const SPARSE_BATCHES_MAX = 4096;

/** What is behind a page that cannot be read is not read later either. */
function unlessDamaged(look: () => unknown): unknown {
  try {
    return look();
  } catch (error) {
    if (!isDamage(error)) throw error;
    return undefined;
  }
}

/** Lengths stand at the beginning of a row: what is long is not read. */
export function checkSizes(database: Database.Database): void {
  const tables = new Set(database.prepare<[], string>('SELECT name FROM main.sqlite_schema').pluck().all());
  // Version 1 has fewer.
  for (const [table, column, bytes] of LIMITS.filter(([name]) => tables.has(name))) {
    const tooLong = database.prepare<[number]>(`SELECT 1 FROM ${table} WHERE octet_length(${column}) > ? LIMIT 1`);
    const found = unlessDamaged(() => tooLong.get(bytes));
    if (found) throw corrupt(`its table ${table} has values that are longer than any recording has`);
  }
  for (const table of WHOLE_TABLES.filter((name) => tables.has(name))) {
    const found = unlessDamaged(() => database.prepare(`SELECT 1 FROM ${table} LIMIT 1 OFFSET ${ROWS_MAX}`).get());
    if (found) throw corrupt(`its table ${table} has more rows than any recording has`);
  }
  if (unlessDamaged(() => hasTooManyBatches(database)))
    throw corrupt('its hashes of contexts are of more contexts than it has');
}

function hasTooManyBatches(database: Database.Database): boolean {
  // Version 1 has other hashes, which are not read.
  if (
    database.prepare("SELECT 1 FROM pragma_table_info('context_hash', 'main') WHERE name = 'key'").get() === undefined
  )
    return false;
  const contexts = database.prepare<[], [number, number]>('SELECT count(*), coalesce(max(context_id), 0) FROM context');
  const [count, last] = contexts.raw().get()!;
  const batchesMax = SPARSE_BATCHES_MAX + Math.ceil((2 * count) / BATCH_SIZE);
  const { batches, lastBatch } = batchesOf(database, batchesMax + 1);
  return batches > batchesMax || lastBatch * BATCH_SIZE >= last;
}
