/** Requests to the daemon for the what-ifs of a transaction and of similar transactions. */
import type { Only } from '../../contract/received.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import { FILTERED, type Link } from '../link/link.ts';
import { buildOffsetsField } from '../replay/settings_in_link.ts';

export const WHAT_IF = '/api/replay/whatif';

/** Builds the fields that are common to the request for one transaction and the request for similar transactions. */
export function buildAssumption(only: Only, offsets: LinkedClockOffsets) {
  return { only, ...(offsets.size > 0 && { clock_offsets_ns: buildOffsetsField(offsets) }) };
}

/** Filters in the field `where` of a what-if. */
export interface QuestionWhere {
  from?: bigint;
  to?: bigint;
  service?: readonly string[];
  node?: readonly string[];
}

type Filters = Pick<Link, 'from' | 'to' | 'service' | 'node'>;

/** Returns the link's filters. Without filters, returns a filter for `ownService`, if that service is given. */
export function buildWhere({ from, to, service, node }: Filters, ownService: string | null): QuestionWhere {
  const where = {
    ...(from !== null && { from }),
    ...(to !== null && { to }),
    ...(service.length > 0 && { service }),
    ...(node.length > 0 && { node }),
  };
  if (Object.keys(where).length > 0 || ownService === null) return where;
  return { service: [ownService] };
}

/** Returns the names of the link's filters that a what-if does not support and therefore ignores. */
export function listUnusedFilters(link: Link): string[] {
  const excluded = FILTERED.map((name) => `exclude_${name}` as const);
  const others = FILTERED.filter((name) => name !== 'service' && name !== 'node');
  const lists = [...others, ...excluded].filter((name) => link[name].length > 0);
  return link.has_error ? [...lists, 'has_error'] : lists;
}
