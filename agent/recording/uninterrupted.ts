/** Whether recording went on: what lies between one writer and the next is a gap, and the recording says so. */
import type Database from 'better-sqlite3';
import type { LossCause } from '../../bpf/schema/losses.ts';
import { toStored } from './format.ts';
import { noteWriter } from './side_notes_table.ts';

const SET = 'INSERT INTO meta VALUES (?, CAST(? AS INTEGER)) ON CONFLICT (key) DO UPDATE SET value = excluded.value';

/** Until when a writer is known to have been recording, nanoseconds since the epoch. */
const ALIVE = 'alive_ns';
/** 1 when the last writer closed the recording, 0 while one has it open, or after it was killed. */
const ENDED = 'ended';

/** Written with a flush at most so often: it changes a page that a flush would not touch. */
const ALIVE_EVERY_NS = 1_000_000_000n;

/** A writer begins: tells what happened since the last one. Its own transaction. */
export function noteInterruption(database: Database.Database, nowNs: bigint): void {
  const value = database.prepare<[string], bigint | number>('SELECT value FROM meta WHERE key = ?').pluck();
  database.transaction(() => {
    const alive = value.safeIntegers().get(ALIVE);
    if (alive !== undefined) {
      const cause: LossCause = Number(value.get(ENDED)) === 1 ? 'agent_stopped' : 'agent_killed';
      const fromNs = BigInt(alive);
      // The wall clock may have been set back meanwhile.
      const toNs = nowNs > fromNs ? nowNs : fromNs;
      noteWriter(database).addLoss({ cause, eventType: null, count: 0, fromNs, toNs });
    }
    const set = database.prepare(SET);
    set.run(ALIVE, toStored(nowNs));
    set.run(ENDED, 0);
  })();
}

/** Gives what a commit calls, inside its transaction. */
export function markAlive(database: Database.Database): (nowNs: bigint) => void {
  const set = database.prepare(SET);
  let aliveNs = 0n;
  return (nowNs) => {
    const since = nowNs - aliveNs;
    if (since >= 0n && since < ALIVE_EVERY_NS) return;
    aliveNs = nowNs;
    set.run(ALIVE, toStored(nowNs));
  };
}

export function markEnded(database: Database.Database, nowNs: bigint): void {
  database.transaction(() => {
    const set = database.prepare(SET);
    set.run(ALIVE, toStored(nowNs));
    set.run(ENDED, 1);
  })();
}
