/** How a recording is: whether somebody writes it, how large it is, and what it misses altogether. */
import { statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { Loss } from './side_notes.ts';

const ALIVE = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'alive_ns'";
const ENDED = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'ended'";
const LOST = 'SELECT cause, event_type, sum(count) FROM loss GROUP BY cause, event_type ORDER BY cause, event_type';

export interface StateReader {
  /** Null of what no agent has written, such as a bundle. `aliveNs`: until then it is known to have been at work. */
  lastWriter(): { aliveNs: bigint; ended: boolean } | null;
  /** Of the file and its log. */
  sizeBytes(): number;
  lossTotals(): LossTotal[];
}

export type LossTotal = Pick<Loss, 'cause' | 'eventType' | 'count'>;

export function openStateReader(database: Database.Database, path: string): StateReader {
  const alive = database.prepare<[], bigint>(ALIVE).pluck().safeIntegers();
  const ended = database.prepare<[], number>(ENDED).pluck();
  const lost = database.prepare<[], [Loss['cause'], Loss['eventType'], number]>(LOST).raw();
  return {
    lastWriter() {
      const aliveNs = alive.get();
      return aliveNs === undefined ? null : { aliveNs, ended: ended.get() === 1 };
    },
    sizeBytes: () => sizeOf(path) + sizeOf(`${path}-wal`),
    lossTotals: () => lost.all().map(([cause, eventType, count]) => ({ cause, eventType, count })),
  };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
