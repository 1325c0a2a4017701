/**
 * Evaluates the conditions of a transaction filter that need events. Adds the hashes of the transactions that meet
 * these conditions to the filter.
 */
import { Problem } from '../base/problem.ts';
import { needsEvents } from '../sums/differences/chosen_transactions.ts';
import type { PopulationRows } from '../sums/differences/population.ts';
import type { Passes } from './passes.ts';
import type { ChosenFilter, TransactionFilter } from './store.ts';

export interface FilterChooser {
  /**
   * Gathers the transactions that meet the conditions that need no events. Returns undefined if there are more than
   * `eventsMax` transactions.
   */
  gather(filter: TransactionFilter, eventsMax: number): AsyncGenerator<void, PopulationRows | undefined>;
  choose: Passes['choose'];
}

/**
 * Returns the filter with hashes; undefined if more than `eventsMax` events would have to be read. A filter without
 * conditions on events is returned unchanged.
 */
export async function* findChosen(
  { gather, choose }: FilterChooser,
  filter: TransactionFilter,
  eventsMax: number,
): AsyncGenerator<void, ChosenFilter | undefined> {
  if (!needsEvents(filter)) return filter;
  const population = yield* gather(filter, eventsMax);
  const chosen = population && (yield* choose({ population, filter, eventsMax }));
  if (!chosen) return undefined;
  const hashes = population.hashes.subarray(0, population.count).filter((_, row) => chosen[row] === 1);
  return { ...filter, hashes: new Set(hashes) };
}

/** Does the same as `findChosen`, but rejects with a Problem instead of returning undefined. */
export async function* requireChosen(
  chooser: FilterChooser,
  filter: TransactionFilter,
  eventsMax: number,
): AsyncGenerator<void, ChosenFilter> {
  const found = yield* findChosen(chooser, filter, eventsMax);
  if (found) return found;
  const detail = `more than ${eventsMax} events would have to be read: ask for a window of less time`;
  throw new Problem('too_many_events', detail);
}
