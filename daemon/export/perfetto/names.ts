/**
 * All names of slices and of their arguments. The names are derived from the schema, so one packet at the start of the
 * trace can define all of them.
 */
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { LOSS_CAUSES } from '../../../bpf/schema/losses.ts';
import { EVENT_COLUMNS } from '../flat_columns.ts';

export const LOSS_CATEGORY = 'loss';
export const LOST_EVENTS = 'lost_events';

/** Columns that are not arguments, because the trace already contains their values in another form. */
const TOLD = ['event_type', 'timestamp_ns', 'duration_ns', 'pid', 'tid'];
export const ARGUMENTS = EVENT_COLUMNS.filter(({ name }) => !TOLD.includes(name));

/** For each event type, the first field with labelled values. The label names the operation: `pwrite64`, `flush`. */
const WORDS = new Map(
  EVENTS.map(({ name, fields }) => {
    const field = Object.entries(fields).find(([field, { kind }]) => !(field in commonFields) && 'labels' in kind);
    return [
      name,
      field && { name: field[0], words: (field[1].kind as { labels: Map<number, string> }).labels },
    ] as const;
  }),
);

export function sliceName(event: ApiEvent): string {
  const { name = '' } = WORDS.get(event.event_type) ?? {};
  return (event as unknown as Record<string, string | undefined>)[name] ?? event.event_type;
}

/** Maps each name to its number in the trace (`iid`); numbers start at 1. */
type Numbered = ReadonlyMap<string, number>;

export const CATEGORIES = numberNames([...WORDS.keys(), LOSS_CATEGORY]);
export const SLICE_NAMES = numberNames([
  ...WORDS.keys(),
  ...[...WORDS.values()].flatMap((field) => [...(field?.words.values() ?? [])]),
  ...Object.keys(LOSS_CAUSES),
  LOSS_CATEGORY,
]);
export const ARGUMENT_NAMES = numberNames([...ARGUMENTS.map(({ name }) => name), LOST_EVENTS]);

function numberNames(names: readonly string[]): Numbered {
  return new Map([...new Set(names)].map((name, i) => [name, i + 1]));
}
