/**
 * Which transactions have which neighbours: when each began to wait for a device, and who had requests there then.
 * Neighbours come and go, so one that was there for a while is one of most transactions of that time. Those in a box are
 * therefore compared with others of its time; a box that has all transactions of a time is compared without neighbours.
 */
import type { Box } from '../box.ts';
import { newBits, setBit } from './carriers.ts';
import type { EventRows } from './kept_events.ts';
import type { NeighbourFinder } from './neighbours.ts';
import type { PopulationRows } from './population.ts';
import type { ProfileColumns } from './profile_columns.ts';
import type { FieldValue } from './profiles.ts';
import type { Stratum } from './strata.ts';
import { KINDS } from './time_parts.ts';

export interface NeighbourCarriers {
  readonly values: readonly FieldValue[];
  /** For each value, how many of the selected and of the others have it, alternating. */
  readonly counts: Float64Array;
  /** Counts the transactions that may have it and began in the time of the box, by node. */
  strataOf(value: number): readonly Stratum[];
  /** The transactions that have a value, as bits. */
  bitsOf(value: number): Uint32Array;
  begin(rows: EventRows): void;
  /** Adds a request of others for which the transaction began to wait. */
  addWait(profile: number, from: number): void;
  /** Adds the waits for own requests, and counts the neighbours. `exact` has the times that those of the rows stand for. */
  count(rows: EventRows, transaction: number, exact: readonly bigint[] | undefined): void;
}

interface Compared {
  population: PopulationRows;
  box: Box;
  columns: ProfileColumns;
  /** The time from which the finder counts. */
  baseNs: bigint;
}

export function neighbourCarriers(
  { values, valueOfKind, begin, addWait, pass }: NeighbourFinder,
  { population, box, columns, baseNs }: Compared,
): NeighbourCarriers {
  const { startsNs, selected } = population;
  const counts = new Float64Array(values.length * 2);
  /** The last transaction that has the value, so that it counts once. */
  const lastWith = new Int32Array(values.length).fill(-1);
  const strata = valueOfKind.map((): Stratum => ({ selected: 0, others: 0, sizes: { selected: 0, others: 0 } }));
  const byValue = Map.groupBy(strata.keys(), (kind) => valueOfKind[kind]!);
  const { fromNs = 0n, toNs = 2n ** 64n } = box;
  const isInTime = (startNs: bigint) => startNs >= fromNs && startNs < toNs;
  const bits: Uint32Array[] = [];
  const bitsOf = (value: number) => (bits[value] ??= newBits(population.count));
  return {
    values,
    counts,
    strataOf: (value) => byValue.get(value)!.map((kind) => strata[kind]!),
    bitsOf,
    begin,
    addWait,
    count(rows, transaction, exact) {
      for (let row = 0; row < rows.length; row++) {
        const profile = rows.profiles[row]!;
        if (rows.own[row] === 1 && columns.kinds[profile] === KINDS.ownQueue) addWait(profile, rows.starts[row]!);
      }
      const start = Number(startsNs[transaction]! - baseNs);
      const timeOf = (at: number) => start + (exact ? Number(exact[at]!) : at);
      const side = selected[transaction] === 1 ? 'selected' : 'others';
      const isTested = isInTime(startsNs[transaction]!);
      pass(rows, timeOf, (kind, isNeighbour) => {
        const stratum = strata[kind]!;
        if (isTested) stratum.sizes[side]++;
        if (!isNeighbour) return;
        if (isTested) stratum[side]++;
        const value = valueOfKind[kind]!;
        if (lastWith[value] === transaction) return;
        lastWith[value] = transaction;
        counts[value * 2 + (side === 'selected' ? 0 : 1)]!++;
        setBit(bitsOf(value), transaction);
      });
    },
  };
}
