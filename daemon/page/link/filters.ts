/** The filters of a link as parameters of the daemon. */
import { escapeListItem } from '../../base/list_text.ts';
import { FILTERED, type Filtered, type Link } from './link.ts';

const NAMES = [...FILTERED, ...FILTERED.map((name) => `exclude_${name}` as const)] as const;

/** Builds the parameters that filter by value, which every kind of request takes. */
export function filterParameters(link: Link): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const { name, value } of listFilters(link)) parameters.append(name, escapeListItem(value));
  return parameters;
}

/**
 * Builds the parameters for the filters and the window in the form that `/api/transactions`, `/api/heatmap` and
 * `/api/stats` take.
 */
export function buildPopulationParameters(link: Link): URLSearchParams {
  const parameters = filterParameters(link);
  if (link.from !== null) parameters.set('from', link.from.toString());
  if (link.to !== null) parameters.set('to', link.to.toString());
  return parameters;
}

/** Returns a change of the link that keeps only entries with the value, or excludes them. */
export function addFilterValue(link: Link, name: Filtered, value: string, isExcluded: boolean): Partial<Link> {
  const [to, from] = isExcluded ? [`exclude_${name}` as const, name] : [name, `exclude_${name}` as const];
  return {
    [from]: link[from].filter((one) => one !== value),
    [to]: link[to].includes(value) ? link[to] : [...link[to], value],
  };
}

/** Returns a change of the link that drops a filter value, whether the filter keeps or excludes it. */
export function dropFilterValue(link: Link, name: (typeof NAMES)[number], value: string): Partial<Link> {
  return { [name]: link[name].filter((one) => one !== value) };
}

/** Lists every filter that is set, in the order of the address. */
export function listFilters(link: Link): { name: (typeof NAMES)[number]; value: string }[] {
  return NAMES.flatMap((name) => link[name].map((value) => ({ name, value })));
}

/** Returns a change of the link that drops all filters and the window. */
export function dropFilters(): Partial<Link> {
  const cleared = Object.fromEntries(NAMES.map((name) => [name, []])) as Partial<Link>;
  return { ...cleared, has_error: false, from: null, to: null };
}
