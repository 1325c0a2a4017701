/** Classifies how each event is related to the transactions of a picture. */
import type { EventColumns } from '../columns/event_columns.ts';

/** Threads of the transactions caused the event, and any data that it carries belongs to the transactions. */
export const OWN = 0;
/**
 * The event is a request with data that the transactions wrote earlier. The request's time counts only if the
 * transactions queued the request, or while one of their syncs runs.
 */
export const WRITTEN_BACK = 1;
export const OTHER = 2;

export interface ShareOptions {
  /** Transactions of the picture; null for a picture of a window, in which every event is an own event. */
  transactions: ReadonlySet<string> | null;
}

/** Returns OWN, WRITTEN_BACK or OTHER for each row. */
export function computeShares(columns: EventColumns, { transactions }: ShareOptions): Uint8Array {
  const { count, origins, owner } = columns;
  const shares = new Uint8Array(count);
  if (transactions === null) return shares.fill(OWN);
  const hasChosenTransaction = ({ transactionId }: { transactionId: string | null }) =>
    transactionId !== null && transactions.has(transactionId);
  const ofOwner = columns.owners.map((one) =>
    !hasChosenTransaction(one) ? OTHER : one.source === 'origin' ? WRITTEN_BACK : OWN,
  );
  const ofOrigin = origins.owners.map(hasChosenTransaction);
  for (let row = 0; row < count; row++) shares[row] = ofOwner[owner[row]!]!;
  // If a request carries data of several owners, `owner` contains one owner or no owner.
  for (let at = 0; at < origins.row.length; at++) {
    const row = origins.row[at]!;
    if (shares[row] === OTHER && ofOrigin[origins.owner[at]!]) shares[row] = WRITTEN_BACK;
  }
  return shares;
}

/**
 * Returns 1 for each request that a task of the transactions queued, even if the request carries data of others: for
 * example, an fsync queues requests with data that others wrote to the same file, and waits for these requests.
 */
export function markQueuedRows({ count, owner, owners }: EventColumns, { transactions }: ShareOptions): Uint8Array {
  const isOf = owners.map(({ queuedBy }) => Number(queuedBy !== null && transactions?.has(queuedBy)));
  const queued = new Uint8Array(count);
  for (let row = 0; row < count; row++) queued[row] = isOf[owner[row]!]!;
  return queued;
}
