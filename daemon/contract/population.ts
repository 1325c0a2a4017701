/** The population that a heatmap counts or a comparison compares: transactions or events, selected by a filter. */
import { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import { type InputError, Problem } from '../base/problem.ts';
import type { EventFilter, TransactionFilter } from '../store/store.ts';
import type { Query } from './query_string.ts';

export type Population = { of: 'transactions'; filter: TransactionFilter } | { of: 'events'; filter: EventFilter };

export const populationKind = described(
  z.enum(['transactions', 'events'], { error: 'must be transactions or events' }),
  'the kind: transactions, by the start of their first own event and the time that their callers waited, or events; transactions unless given',
);

type PopulationKind = Population['of'];

/** Refuses parameters that only the other kind of population has: ignoring them would widen the answer. */
export function checkPopulationParameters(
  of: PopulationKind,
  query: Query,
  names: Readonly<Record<PopulationKind, readonly string[]>>,
): void {
  const other = of === 'events' ? 'transactions' : 'events';
  const errors: InputError[] = names[other]
    .filter((name) => name in query)
    .map((parameter) => ({ parameter, message: `is for of=${other} only` }));
  const texts = errors.map((error) => ('parameter' in error ? `${error.parameter}: ${error.message}` : error.message));
  if (errors.length > 0) throw new Problem('invalid_parameter', texts.join('; '), errors);
}
