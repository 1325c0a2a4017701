/** Collects what a reader found damaged and left out, to be reported as losses with every answer that it affects. */

import type { Loss } from '../format/losses.ts';
import { U64_MAX } from '../format/schema.ts';
import type { LossReader } from './loss_reader.ts';
import { isDamage } from './salvage.ts';
import type { SegmentMeta } from './segment_index.ts';
import type { StateReader } from './state_reader.ts';

export interface DamageNotes {
  /** Adds a segment whose columns cannot be read. */
  add(meta: SegmentMeta): void;
  /** Notes an entry of which not even the time is known. */
  addEntry(): void;
  /** Notes a request that could not be answered. */
  addFailure(): void;
  has(meta: SegmentMeta): boolean;
  losses(fromNs?: bigint, toNs?: bigint): Loss[];
  /** Whether any damage was found, even if no answer lacks anything. */
  any(): boolean;
}

export function damageNotes(): DamageNotes {
  const segments = new Map<number, SegmentMeta>();
  let entries = false;
  let failures = false;
  const loss = (count: number, fromNs: bigint, toNs: bigint): Loss => ({
    cause: 'damaged',
    eventType: null,
    count,
    fromNs,
    toNs,
  });
  return {
    add: (meta) => void segments.set(meta.firstNumber, meta),
    addEntry: () => {
      entries = true;
    },
    addFailure: () => {
      failures = true;
    },
    any: () => failures || entries || segments.size > 0,
    has: ({ firstNumber }) => segments.has(firstNumber),
    losses: (fromNs = 0n, toNs = U64_MAX) => [
      ...(entries ? [loss(0, fromNs, toNs)] : []),
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
