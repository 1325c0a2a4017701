/** Replaces the part of a filter of transactions that needs their events by the transactions that those choose. */
import { needsEvents } from '../../sums/differences/chosen_transactions.ts';
import { gatherPopulation, type PopulationRows } from '../../sums/differences/population.ts';
import type { TransactionFilter, TransactionRows } from '../store.ts';
import type { ChosenFilter, Gathering, Recordings } from './recordings.ts';
import type { Scans } from './scans.ts';

interface Options {
  recordings: Recordings;
  scans: Scans;
  /** Runs work on the tables of transactions, which others use meanwhile. */
  inTurn: <Result>(work: () => Generator<void, Result>) => AsyncGenerator<void, Result>;
}

/** Gathers the transactions that a filter selects, with whether each is in the box. */
export function populationOf(box: Parameters<typeof gatherPopulation>[0]): Gathering<PopulationRows> {
  const { add, finish } = gatherPopulation(box);
  const hasFailed = (failed: Uint8Array) => (row: number) => failed[row] === 1;
  return {
    add: ({ failed, ...rows }: TransactionRows) => add({ ...rows, hasFailed: hasFailed(failed) }),
    finish,
  };
}

/** Returns undefined if there are too many events. A filter that needs none is returned as it is. */
export async function* chosenFilter(
  { recordings, scans, inTurn }: Options,
  filter: TransactionFilter,
  eventsMax: number,
): AsyncGenerator<void, ChosenFilter | undefined> {
  if (!needsEvents(filter)) return filter;
  const { result: population } = yield* inTurn(() => recordings.gatherTransactions(filter, () => populationOf({})));
  const chosen = yield* scans.choose({ population, filter, eventsMax });
  if (!chosen) return undefined;
  const hashes = new Set<number>();
  for (let row = 0; row < population.count; row++) if (chosen[row] === 1) hashes.add(population.hashes[row]!);
  return { ...filter, hashes };
}
