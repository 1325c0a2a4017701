/** Runs several statements in one read transaction, so that they see nothing of what a writer commits meanwhile. */
import type Database from 'better-sqlite3';
import { corrupt } from '../format/errors.ts';

/**
 * SQLite ends the transaction when a page cannot be read. Everything else that was read is still of one snapshot,
 * unless a writer has committed meanwhile.
 */
export function readTransactions(database: Database.Database): <T>(work: () => T) => T {
  const begin = database.prepare('BEGIN');
  const commit = database.prepare('COMMIT');
  const dataVersion = database.prepare<[], number>('PRAGMA data_version').pluck();
  return (work) => {
    if (database.inTransaction) return work();
    begin.run();
    const seen = dataVersion.get();
    try {
      const result = work();
      if (!database.inTransaction && dataVersion.get() !== seen) throw corrupt('it was written to while it was read');
      return result;
    } finally {
      if (database.inTransaction) commit.run();
    }
  };
}
