/** Reads the pins of a recording. */
import type Database from 'better-sqlite3';

const PINS = 'SELECT transaction_id, from_ns, pinned_ns FROM pin ORDER BY pinned_ns, transaction_id';

export interface Pin {
  transactionId: string;
  /** Start of the time that is kept, in nanoseconds since the epoch. */
  fromNs: bigint;
  /** When the transaction was first pinned. */
  pinnedNs: bigint;
}

export interface PinReader {
  /** All pins, the oldest first. */
  pins(): Pin[];
}

export function openPinReader(database: Database.Database): PinReader {
  const pins = database.prepare<[], [string, bigint, bigint]>(PINS).raw().safeIntegers();
  return {
    pins: () => pins.all().map(([transactionId, fromNs, pinnedNs]) => ({ transactionId, fromNs, pinnedNs })),
  };
}
