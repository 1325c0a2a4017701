/** The time that a recording covers; losses within it are in a table of their own. */
import type Database from 'better-sqlite3';
import { corrupt } from '../format/errors.ts';
import { fromStoredMax } from '../format/schema.ts';

const NOTES =
  "SELECT key, value FROM meta WHERE key IN ('created_ns', 'alive_ns', 'ended', 'alive_monotonic_ns', 'alive_boot_id')";

const FIRST_AND_LAST = 'SELECT min(min_timestamp_ns), max(max_timestamp_ns) FROM segment';

export interface RecordedSpan {
  fromNs: bigint;
  /** The latest time at which a writer is known to have been at work. */
  toNs: bigint;
  /** `unsaid`: a writer is at work, or it was killed, or this is a copy that was made while it was at work. */
  end: 'closed' | 'unsaid';
  /** When the recording's writer last committed, by CLOCK_MONOTONIC of the boot with this id. */
  committed?: { monotonicNs: bigint; bootId: string };
}

export interface RecordedSpanReader {
  /** Returns undefined when no time at all is known. */
  recordedSpan(): RecordedSpan | undefined;
}

export function openRecordedSpan(database: Database.Database): RecordedSpanReader {
  const notes = database.prepare<[], [string, bigint | string]>(NOTES).raw().safeIntegers();
  const firstAndLast = database.prepare<[], [bigint | null, bigint | null]>(FIRST_AND_LAST).raw().safeIntegers();
  return {
    recordedSpan() {
      const said = new Map(notes.all());
      for (const [key, value] of said)
        if (key !== 'alive_boot_id' && (typeof value !== 'bigint' || value < 0n))
          throw corrupt(`its ${key} is not a time`);
      const [created, alive] = [said.get('created_ns'), said.get('alive_ns')];
      if (typeof created === 'bigint' && typeof alive === 'bigint') {
        const [monotonicNs, bootId] = [said.get('alive_monotonic_ns'), said.get('alive_boot_id')];
        const isKnown = typeof monotonicNs === 'bigint' && typeof bootId === 'string';
        return {
          fromNs: created,
          toNs: alive,
          end: said.get('ended') === 1n ? 'closed' : 'unsaid',
          ...(isKnown && { committed: { monotonicNs, bootId } }),
        };
      }
      // A bundle has selected events, and no information about the time around them.
      const [first, last] = firstAndLast.get()!;
      if (first === null || last === null) return undefined;
      return { fromNs: first, toNs: fromStoredMax(last), end: 'closed' };
    },
  };
}
