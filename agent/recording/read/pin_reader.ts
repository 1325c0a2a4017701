/** The pins of a recording. */
import type Database from 'better-sqlite3';

const PINS = 'SELECT transaction_id, from_ns, pinned_ns FROM pin ORDER BY pinned_ns, transaction_id';

export interface Pin {
  transactionId: string;
  /** Start of what is kept, nanoseconds since the epoch. */
  fromNs: bigint;
  /** When it was pinned first. */
  pinnedNs: bigint;
}

export interface PinReader {
  /** The oldest first. */
  pins(): Pin[];
}

export function openPinReader(database: Database.Database): PinReader {
  const pins = database.prepare<[], [string, bigint, bigint]>(PINS).raw().safeIntegers();
  return {
    pins: () => pins.all().map(([transactionId, fromNs, pinnedNs]) => ({ transactionId, fromNs, pinnedNs })),
  };
}
