/** The state of a recording: whether an agent has written it, how large it is, and what it is missing in total. */
import { statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { LOSS_CAUSES } from '../../../bpf/schema/losses.ts';
import type { Loss } from '../format/losses.ts';

const WRITTEN = "SELECT 1 FROM meta WHERE key = 'alive_ns'";
const quoted = (words: readonly string[]) => words.map((word) => `'${word}'`).join();
/** The first word of a reason: see `reasonText`. */
const CAUSE = "substr(cause, 1, instr(cause || ' ', ' ') - 1)";
/** Unknown words are one group: a file from an untrusted source may have any number of them. */
const LOST = `
SELECT
  CASE WHEN ${CAUSE} IN (${quoted(Object.keys(LOSS_CAUSES))}) THEN ${CAUSE} ELSE 'unknown' END AS known_cause,
  CASE WHEN event_type IN (${quoted(EVENTS.map(({ name }) => name))}) THEN event_type END AS known_type,
  sum(count)
FROM loss
GROUP BY known_cause, known_type
ORDER BY known_cause, known_type`;

export interface StateReader {
  /** Whether an agent has ever written it; false for a bundle. */
  isWritten(): boolean;
  /** Size of the file and its log. */
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
