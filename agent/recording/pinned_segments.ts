/** Which segments the pins of a recording keep. */
import type Database from 'better-sqlite3';
import { contextFinder } from './context_hash.ts';

const PINS = 'SELECT transaction_id AS transactionId, from_ns AS fromNs FROM pin';

const WITH_CONTEXT = 'SELECT first_number FROM segment_context WHERE context_id = ?';

const FIRST_EVENT =
  'SELECT min(first_timestamp_ns) FROM transaction_summary WHERE transaction_key IN (SELECT value FROM json_each(?))';

/** What came before: no segment that reaches into the window ends later than the longest one could. */
const BEFORE = `
SELECT first_number
FROM segment
WHERE sealed = 1 AND max_timestamp_ns >= :fromNs AND min_timestamp_ns <= :toNs
  AND max_timestamp_ns <= :toNs + (
    SELECT coalesce(max(max_timestamp_ns - min_timestamp_ns), 0) FROM segment WHERE sealed = 1
  )`;

/** First numbers of the segments that hold a pinned transaction, or what the node did right before it. */
export function pinnedSegments(database: Database.Database): Set<number> {
  const pinned = new Set<number>();
  const pins = database.prepare<[], { transactionId: string; fromNs: bigint }>(PINS).safeIntegers().all();
  if (pins.length === 0) return pinned;
  const contextsOf = contextFinder(database, 'transaction_id');
  const withContext = database.prepare<[number], number>(WITH_CONTEXT).pluck();
  const firstEvent = database.prepare<[string], bigint | null>(FIRST_EVENT).pluck().safeIntegers();
  const before = database.prepare<[object], number>(BEFORE).pluck();
  for (const { transactionId, fromNs } of pins) {
    const contexts = contextsOf(transactionId);
    for (const { context_id } of contexts) {
      for (const firstNumber of withContext.all(context_id)) pinned.add(firstNumber);
    }
    const keys = JSON.stringify([...new Set(contexts.map(({ transaction_key }) => transaction_key))]);
    const toNs = firstEvent.get(keys);
    if (toNs === null || toNs === undefined) continue;
    for (const firstNumber of before.all({ fromNs, toNs })) pinned.add(firstNumber);
  }
  return pinned;
}
