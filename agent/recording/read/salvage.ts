/**
 * Reads segment entries when a page of their table cannot be read: they are found through an index, which has their
 * times and numbers, and read one by one. This is used only for files whose pages have checksums.
 */
import type Database from 'better-sqlite3';
import { toRecordingError } from '../format/errors.ts';

const ORDERS = {
  asc: ['segment_by_start', 'min_timestamp_ns', '>', 'ASC'],
  desc: ['segment_by_end', 'max_timestamp_ns', '<', 'DESC'],
} as const;

const WITH_CONTEXTS = `
SELECT DISTINCT first_number
FROM json_each(:contexts) AS wanted
CROSS JOIN segment_context ON context_id = wanted.value
WHERE first_number < :sealedEnd`;

const keysInOrder = (order: 'asc' | 'desc') => {
  const [index, column, after, direction] = ORDERS[order];
  return `
SELECT ${column}, first_number
FROM main.segment INDEXED BY ${index}
WHERE sealed = 1 AND (${column}, first_number) ${after} (:afterNs, :afterNumber)
ORDER BY ${column} ${direction}, first_number ${direction}
LIMIT 64`;
};

export interface Salvage<Row> {
  /** Readable entries of the keys that follow; none when there are no more. */
  inOrder(order: 'asc' | 'desc', after: { afterNs: bigint; afterNumber: number }, bounds: object): Row[];
  withContexts(wanted: { contexts: string; sealedEnd: number }, bounds: object): Row[];
}

/** `entry` selects the entry with `:firstNumber`, unless `bounds` exclude it. */
export function openSalvage<Row>(
  database: Database.Database,
  entry: Database.Statement<[object], Row>,
  onDamagedEntry: () => void,
): Salvage<Row> {
  function read(firstNumber: bigint, bounds: object): Row[] {
    try {
      const row = entry.get({ ...bounds, firstNumber });
      return row === undefined ? [] : [row];
    } catch (error) {
      if (!isDamage(error)) throw error;
      onDamagedEntry();
      return [];
    }
  }

  return {
    inOrder(order, after, bounds) {
      const keys = database.prepare<[object], [bigint, bigint]>(keysInOrder(order)).raw().safeIntegers();
      for (let from: object = after; ; ) {
        const found = keys.all(from);
        const rows = found.flatMap(([, firstNumber]) => read(firstNumber, bounds));
        const last = found.at(-1);
        if (rows.length > 0 || !last) return rows;
        from = { afterNs: last[0], afterNumber: last[1] };
      }
    },
    withContexts(wanted, bounds) {
      const keys = database.prepare<[object], bigint>(WITH_CONTEXTS).pluck().safeIntegers().all(wanted);
      return keys.flatMap((firstNumber) => read(firstNumber, bounds));
    },
  };
}

export function isDamage(error: unknown): boolean {
  return (toRecordingError(error, '') as { code?: unknown }).code === 'recording_corrupt';
}
