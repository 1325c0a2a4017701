/** How a recording is: whether somebody writes it, how large it is, and what it misses altogether. */
import { statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { Loss } from './side_notes.ts';

const WRITTEN = "SELECT 1 FROM meta WHERE key = 'alive_ns'";
const LOST = 'SELECT cause, event_type, sum(count) FROM loss GROUP BY cause, event_type ORDER BY cause, event_type';

export interface StateReader {
  /** Whether an agent has ever written it: none has written a bundle. */
  isWritten(): boolean;
  /** Of the file and its log. */
  sizeBytes(): number;
  lossTotals(): LossTotal[];
}

export type LossTotal = Pick<Loss, 'cause' | 'eventType' | 'count'>;

export function openStateReader(database: Database.Database, path: string): StateReader {
  const written = database.prepare<[], number>(WRITTEN).pluck();
  const lost = database.prepare<[], [Loss['cause'], Loss['eventType'], number]>(LOST).raw();
  return {
    isWritten: () => written.get() !== undefined,
    sizeBytes: () => sizeOf(path) + sizeOf(`${path}-wal`),
    lossTotals: () => lost.all().map(([cause, eventType, count]) => ({ cause, eventType, count })),
  };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
