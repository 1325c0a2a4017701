/**
 * Finds the neighbours of each transaction: the services or commands that had requests on a device at the moment when
 * the transaction began to wait for the device. Neighbours come and go, and most transactions that run while a
 * neighbour is active have that neighbour. So transactions in a box are compared with other transactions from the time
 * of the box. A box that is limited only by time contains all of these transactions, so it is compared without
 * neighbours.
 */
import type { Box } from '../box.ts';
import { createBits, setBit } from './carriers.ts';
import { type EventRows, ROLES } from './kept_events.ts';
import type { NeighbourFinder } from './neighbours.ts';
import type { PopulationRows } from './population.ts';
import type { ProfileColumns } from './profile_columns.ts';
import type { FieldValue } from './profiles.ts';
import type { Stratum } from './strata.ts';
import { KINDS } from './time_parts.ts';

/** Maximum number of strata of all values together, to limit memory. */
const STRATA_MAX = 2 ** 17;

export interface NeighbourCarriers {
  readonly values: readonly FieldValue[];
  /** Two counts for each value: the number of selected transactions that have it, then of other transactions. */
  readonly counts: Float64Array;
  /**
   * Counts the transactions that began within the time of the box and may have the value. There is a stratum for each
   * set of nodes on which a transaction may have the value: if a neighbour runs on several nodes at once, a transaction
   * on these nodes is counted only once, not once per node.
   */
  listStrata(value: number): readonly Stratum[];
  /** Returns the transactions that have a value, as bits. */
  getCarrierBits(value: number): Uint32Array;
  begin(rows: EventRows): void;
  /** Adds another task's request for which the transaction began to wait. */
  addWait(profile: number, from: number): void;
  /**
   * Adds the waits for own requests, and counts the neighbours. If the times of the rows are ranks, `exact` contains
   * the time for each rank. Returns the number of kinds that were examined.
   */
  count(rows: EventRows, transaction: number, exact: readonly bigint[] | undefined): number;
}

interface ComparedPopulation {
  population: PopulationRows;
  box: Box;
  columns: ProfileColumns;
  /** The base of the finder's times, in nanoseconds since the epoch. */
  baseNs: bigint;
}

export function createNeighbourCarriers(
  { values, valueOfKind, begin, addWait, pass }: NeighbourFinder,
  { population, box, columns, baseNs }: ComparedPopulation,
): NeighbourCarriers {
  const { startsNs, selected } = population;
  const counts = new Float64Array(values.length * 2);
  const strata = values.map(() => new Map<string, Stratum>());
  let strataCount = 0;
  /** Maps each value that the transaction may have to its kinds; a value has one kind per node. */
  const kindsOf = new Map<number, number[]>();
  const isWith = new Uint8Array(values.length);
  const { fromNs = 0n, toNs = 2n ** 64n } = box;
  const isInTime = (startNs: bigint) => startNs >= fromNs && startNs < toNs;
  const bits: Uint32Array[] = [];
  const getCarrierBits = (value: number) => (bits[value] ??= createBits(population.count));

  /**
   * Returns the stratum of a set of nodes; undefined if a new stratum would exceed `STRATA_MAX`. Transactions on these
   * nodes are then not tested.
   */
  function findOrCreateStratum(value: number, kinds: number[]): Stratum | undefined {
    const key = kinds.length === 1 ? String(kinds[0]) : kinds.sort((a, b) => a - b).join();
    const known = strata[value]!.get(key);
    if (known || strataCount === STRATA_MAX) return known;
    const stratum: Stratum = { selected: 0, others: 0, sizes: { selected: 0, others: 0 } };
    strata[value]!.set(key, stratum);
    strataCount++;
    return stratum;
  }

  return {
    values,
    counts,
    listStrata: (value) => [...strata[value]!.values()],
    getCarrierBits,
    begin,
    addWait,
    count(rows, transaction, exact) {
      for (let row = 0; row < rows.length; row++) {
        const profile = rows.profiles[row]!;
        if (rows.roles[row] === ROLES.own && columns.kinds[profile] === KINDS.ownQueue)
          addWait(profile, rows.starts[row]!);
      }
      const start = Number(startsNs[transaction]! - baseNs);
      const computeTime = (at: number) => start + (exact ? Number(exact[at]!) : at);
      const side = selected[transaction] === 1 ? 'selected' : 'others';
      const isTested = isInTime(startsNs[transaction]!);
      let looked = 0;
      kindsOf.clear();
      pass(rows, computeTime, (kind, isNeighbour) => {
        const value = valueOfKind[kind]!;
        const kinds = kindsOf.get(value);
        if (kinds) kinds.push(kind);
        else kindsOf.set(value, [kind]);
        if (!kinds) isWith[value] = 0;
        if (isNeighbour) isWith[value] = 1;
        looked++;
      });
      for (const [value, kinds] of kindsOf) {
        const stratum = isTested ? findOrCreateStratum(value, kinds) : undefined;
        if (stratum) stratum.sizes[side]++;
        if (isWith[value] === 0) continue;
        if (stratum) stratum[side]++;
        counts[value * 2 + (side === 'selected' ? 0 : 1)]!++;
        setBit(getCarrierBits(value), transaction);
      }
      return looked;
    },
  };
}
