/** Counts which of a load's writes are in a recording, from the file rather than from the agent's own report. */
import { openReader } from '../../agent/recording/read/reader.ts';
import { BenchError } from './bench.ts';

export interface RecordedWrites {
  recorded: number;
  /** Recorded writes that have an owner. */
  owned: number;
}

/** Throws if the recording lacks a write without reporting a loss, or contains one that was never made. */
export function recordedWrites(path: string, pids: readonly number[], made: number): RecordedWrites {
  const reader = openReader(path);
  try {
    const ofLoad = new Set(pids);
    let recorded = 0;
    let owned = 0;
    const filter = { eventTypes: ['sys_write' as const] };
    for (const { rowCount, columns } of reader.scan({ filter, columns: ['pid', 'context'] })) {
      const [pid, context] = [columns.get('pid')! as Uint32Array, columns.get('context')! as Uint32Array];
      for (let row = 0; row < rowCount; row++) {
        if (!ofLoad.has(pid[row]!)) continue;
        recorded++;
        if (context[row] !== 0) owned++;
      }
    }
    // Losses are not attributed: those of other processes count too. A lost definition is not a lost event.
    const losses = reader.losses().filter(({ cause }) => cause !== 'definition_lost');
    const lost = losses.reduce((sum, { count }) => sum + count, 0);
    if (recorded > made || recorded + lost < made) {
      throw new BenchError(
        `kreplay does not add up: ${made} writes were made, ${recorded} are in the recording, ${lost} are recorded as lost`,
      );
    }
    return { recorded, owned };
  } finally {
    reader.close();
  }
}

/** Number of events of any process that started in [fromNs, toNs). */
export function eventsBetween(path: string, fromNs: bigint, toNs: bigint): number {
  const reader = openReader(path);
  try {
    let events = 0;
    for (const { rowCount } of reader.scan({ filter: { fromNs, toNs }, columns: [] })) events += rowCount;
    return events;
  } finally {
    reader.close();
  }
}
