/** Records interruptions: the time between two writers becomes a gap, which the recording reports as a loss. */

import type Database from 'better-sqlite3';
import type { LossCause } from '../../../bpf/schema/losses.ts';
import { max, min } from '../../../daemon/base/bigints.ts';
import { ALIVE } from '../format/in_progress.ts';
import { computeRestartNumber } from '../format/numbers.ts';
import { END_NUMBER, toStored } from '../format/schema.ts';
import { createLossWriter } from './loss_tables.ts';

const OR_REPLACE = 'ON CONFLICT (key) DO UPDATE SET value = excluded.value';
const SET = `INSERT INTO meta VALUES (?, CAST(? AS INTEGER)) ${OR_REPLACE}`;
const SET_TEXT = `INSERT INTO meta VALUES (?, ?) ${OR_REPLACE}`;

/** Key of `meta` for the CLOCK_MONOTONIC value of the `ALIVE` time. */
const ALIVE_MONOTONIC = 'alive_monotonic_ns';
/** Key of `meta` for the boot in which that value is valid. */
const ALIVE_BOOT = 'alive_boot_id';
/**
 * Key of a flag: 1 after a writer has closed the recording; 0 while a writer has it open, or after the writer was
 * killed.
 */
const ENDED = 'ended';

const NEXT_NUMBER = 'next_number';

const LAST_WRITER = `SELECT key, value FROM meta WHERE key IN ('${ENDED}', '${ALIVE_BOOT}')`;

/**
 * Minimum interval between two writes of the `ALIVE` time. Each write changes a page that the flush would otherwise
 * leave unchanged.
 */
const ALIVE_EVERY_NS = 200_000_000n;

/** One moment, by both clocks. */
interface Moment {
  wallNs: bigint;
  monotonicNs: bigint;
}

/** Returns whether the node has booted again although the last writer did not close the recording. */
export function mayHaveLostPower(database: Database.Database, bootId: string): boolean {
  const said = new Map(database.prepare<[], [string, unknown]>(LAST_WRITER).raw().all());
  return said.get(ENDED) === 0 && said.has(ALIVE_BOOT) && said.get(ALIVE_BOOT) !== bootId;
}

/** Records the gap between the last writer and the `start` of this writer, in a transaction of its own. */
export function recordGap(database: Database.Database, start: Moment, bootId: string): void {
  const value = database.prepare<[string], bigint | string>('SELECT value FROM meta WHERE key = ?').pluck();
  value.safeIntegers();
  const readInteger = (key: string) => value.get(key) as bigint | undefined;
  database.transaction(() => {
    const aliveNs = readInteger(ALIVE);
    if (aliveNs !== undefined) {
      const cause: LossCause = readInteger(ENDED) === 1n ? 'agent_stopped' : 'agent_killed';
      const monotonicNs = value.get(ALIVE_BOOT) === bootId ? readInteger(ALIVE_MONOTONIC) : undefined;
      if (mayHaveLostPower(database, bootId))
        database
          .prepare(SET)
          .run(NEXT_NUMBER, computeRestartNumber(database.prepare<[], number>(END_NUMBER).pluck().get()!));
      const lastedNs = monotonicNs === undefined ? 0n : max(start.monotonicNs - monotonicNs, 0n);
      const { addLoss } = createLossWriter(database);
      for (const gap of computeGaps(aliveNs, start.wallNs, lastedNs))
        addLoss({ cause, eventType: null, count: 0, ...gap });
    }
    const set = database.prepare(SET_TEXT);
    set.run(ALIVE_BOOT, bootId);
    noteAlive(database, start, 0);
  })();
}

/**
 * Returns the periods of a gap. If the clock was set back during the gap, at an unknown time, the gap has one period by
 * the old clock and one by the new clock.
 *
 * ```
 * old clock            alive |-- lasted --|
 * new clock    |-- lasted --| now
 * ```
 */
function computeGaps(aliveNs: bigint, nowNs: bigint, lastedNs: bigint): { fromNs: bigint; toNs: bigint }[] {
  const before = { fromNs: aliveNs, toNs: aliveNs + lastedNs };
  const after = { fromNs: nowNs - lastedNs, toNs: nowNs };
  if (nowNs < aliveNs) return lastedNs === 0n ? [before] : [after, before];
  return [{ fromNs: min(before.fromNs, after.fromNs), toNs: max(before.toNs, after.toNs) }];
}

/** Returns a function that records the `ALIVE` time. Each commit calls it inside its transaction. */
export function createHeartbeat(database: Database.Database): (nowNs: bigint) => void {
  const set = database.prepare(SET);
  let aliveNs = 0n;
  return (nowNs) => {
    const since = nowNs - aliveNs;
    if (since >= 0n && since < ALIVE_EVERY_NS) return;
    aliveNs = nowNs;
    set.run(ALIVE, toStored(nowNs));
    set.run(ALIVE_MONOTONIC, process.hrtime.bigint());
  };
}

export function recordCleanEnd(database: Database.Database, nowNs: bigint): void {
  const now = { wallNs: nowNs, monotonicNs: process.hrtime.bigint() };
  database.transaction(() => noteAlive(database, now, 1))();
}

function noteAlive(database: Database.Database, { wallNs, monotonicNs }: Moment, ended: 0 | 1): void {
  const set = database.prepare(SET);
  set.run(ALIVE, toStored(wallNs));
  set.run(ALIVE_MONOTONIC, monotonicNs);
  set.run(ENDED, ended);
}
