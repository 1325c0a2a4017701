/** What of a load's writes is in a recording: counted from the file, not believed from what the agent says. */
import { openReader } from '../../agent/recording/read/reader.ts';
import { BenchError } from './bench.ts';

export interface RecordedWrites {
  recorded: number;
  /** Those that have an owner. */
  owned: number;
}

/** Throws when the recording lacks a write and does not say so, or holds one that was never made. */
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
    // Losses have no owner: those of other processes count too, and a definition is not an event.
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

/** Events of any process that started in [fromNs, toNs). */
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
