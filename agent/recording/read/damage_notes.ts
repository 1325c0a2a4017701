/** Collects what a reader found damaged and left out, to be reported as losses with every answer that it affects. */

import type Database from 'better-sqlite3';
import { U64_MAX } from '../../../daemon/base/bigints.ts';
import { damagedFrame } from '../format/database.ts';
import type { Loss } from '../format/losses.ts';
import type { FollowedWriter } from './followed_writer.ts';
import type { LossReader } from './loss_reader.ts';
import { isDamage } from './salvage.ts';
import type { SegmentMeta } from './segment_index.ts';
import type { StateReader } from './state_reader.ts';

type DamagedSegment = Pick<SegmentMeta, 'firstNumber' | 'eventCount' | 'minNs' | 'maxNs'>;

/** The damage that one reader found, for another reader of the same file. Every reader checks the log by itself. */
export interface FoundDamage {
  segments: readonly DamagedSegment[];
  entries: boolean;
  failures: boolean;
}

export interface DamageNotes {
  /** Adds a segment whose columns cannot be read. */
  add(meta: DamagedSegment): void;
  /** Notes an entry of which not even the time is known. */
  addEntry(): void;
  /** Says whether the log has commits that cannot be read. */
  setLog(isDamaged: boolean): void;
  /** Notes a request that could not be answered. */
  addFailure(): void;
  has(meta: SegmentMeta): boolean;
  losses(fromNs?: bigint, toNs?: bigint): Loss[];
  /** Whether any damage was found, even if no answer lacks anything. */
  any(): boolean;
  /** Returns undefined if no damage was found. */
  found(): FoundDamage | undefined;
  /** Adds what another reader found. */
  addFound(found: FoundDamage): void;
}

export function damageNotes(): DamageNotes {
  const segments = new Map<number, DamagedSegment>();
  let entries = false;
  let failures = false;
  let isLogDamaged = false;
  const any = () => failures || entries || isLogDamaged || segments.size > 0;
  const loss = (count: number, fromNs: bigint, toNs: bigint): Loss => ({
    cause: 'damaged',
    eventType: null,
    count,
    fromNs,
    toNs,
  });
  return {
    add: ({ firstNumber, eventCount, minNs, maxNs }) =>
      void segments.set(firstNumber, { firstNumber, eventCount, minNs, maxNs }),
    addEntry: () => {
      entries = true;
    },
    setLog: (isDamaged) => {
      isLogDamaged = isDamaged;
    },
    addFailure: () => {
      failures = true;
    },
    any,
    found() {
      if (!failures && !entries && segments.size === 0) return undefined;
      return { segments: [...segments.values()], entries, failures };
    },
    addFound(found) {
      for (const segment of found.segments) segments.set(segment.firstNumber, segment);
      entries ||= found.entries;
      failures ||= found.failures;
    },
    has: ({ firstNumber }) => segments.has(firstNumber),
    losses: (fromNs = 0n, toNs = U64_MAX) => [
      ...(entries || isLogDamaged ? [loss(0, fromNs, toNs)] : []),
      ...[...segments.values()]
        .filter(({ minNs, maxNs }) => minNs < toNs && maxNs >= fromNs)
        .map(({ minNs, maxNs, eventCount }) => loss(eventCount, minNs, maxNs)),
    ],
  };
}

/** Adds the damage that was found to what the recording itself reports as lost. */
export function withDamage(
  damage: DamageNotes,
  lossesIn: LossReader['losses'],
  totals: StateReader['lossTotals'],
): Pick<LossReader & StateReader, 'losses' | 'lossTotals'> {
  return {
    losses: (fromNs, toNs) => [...known(() => lossesIn(fromNs, toNs), damage), ...damage.losses(fromNs, toNs)],
    lossTotals() {
      const damaged = damage.losses().map(({ cause, eventType, count }) => ({ cause, eventType, count }));
      if (damaged.length === 0 && damage.any()) damaged.push({ cause: 'damaged', eventType: null, count: 0 });
      return [...known(totals, damage), ...damaged];
    },
  };
}

/** When losses cannot be read, every answer may have a gap. */
function known<Noted>(losses: () => Noted[], damage: DamageNotes): Noted[] {
  try {
    return losses();
  } catch (error) {
    if (!isDamage(error)) throw error;
    damage.addEntry();
    return [];
  }
}

/**
 * Keeps the note about the log right: a writer may end a damaged log before the frame that is damaged. It returns a
 * function to be called before the file is read; something of the file must have been read already.
 */
export function followLog(
  database: Database.Database,
  damage: DamageNotes,
  writer: Pick<FollowedWriter, 'follow' | 'version'>,
): () => void {
  let seenVersion = writer.version();
  let isDamaged = false;
  function look(): void {
    seenVersion = writer.version();
    isDamaged = damagedFrame(database) !== undefined;
    damage.setLog(isDamaged);
  }
  look();
  return () => {
    writer.follow();
    if (isDamaged && writer.version() !== seenVersion) look();
  };
}
