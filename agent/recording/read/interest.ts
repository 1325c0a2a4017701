/**
 * Which segments may contain what a scan looks for, by what their entries say about their events. An entry whose facts
 * are missing, damaged or of another form rules nothing out.
 */
import { U64_MAX } from '../../../daemon/base/bigints.ts';
import { firstNotBelow } from '../../../daemon/base/binary_search.ts';
import { type ColumnFacts, decodeFacts, hasInFilter, type Range } from '../codec/column_facts.ts';
import { factsSeed } from '../format/pieces.ts';
import type { Ids, ResolvedFilter } from './event_filter.ts';
import type { SegmentMeta } from './segment_index.ts';

/** Results count as unsigned, so negative ones begin here. */
const NEGATIVE_MIN = 2n ** 63n;

/** A filter is not asked for more values: a text has few ids, and some of many are always found. */
const TRIED_MAX = 64;

/** Whether a segment whose column has these facts may contain a match. */
type Rule = (facts: ColumnFacts) => boolean;

export function interestIn(
  filter: ResolvedFilter,
  columnIds: ReadonlyMap<string, number>,
): (segment: SegmentMeta) => boolean {
  const { services: wanted } = filter;
  const rules = new Map<number, Rule>();
  for (const [name, rule] of rulesOf(filter)) {
    const id = columnIds.get(name);
    if (id !== undefined) rules.set(id, rule);
  }

  function mayMatch({ facts, firstNumber }: SegmentMeta): boolean {
    const known = facts && decodeFacts(facts, factsSeed(firstNumber), (id) => rules.has(id));
    for (const [id, ofColumn] of known ?? []) if (!rules.get(id)!(ofColumn)) return false;
    return true;
  }

  return (segment) =>
    (wanted === undefined || segment.services.some((id) => wanted.includes(id))) &&
    (rules.size === 0 || mayMatch(segment));
}

function* rulesOf(filter: ResolvedFilter): Generator<[column: string, Rule]> {
  const { eventTypes, minDurationNs, maxDurationNs, pid, comms, failed } = filter;
  if (minDurationNs > 0n || maxDurationNs < U64_MAX) {
    yield ['duration_ns', reaches(eventTypes, minDurationNs, maxDurationNs)];
  }
  if (failed === true) yield ['result', reaches(eventTypes, NEGATIVE_MIN, U64_MAX)];
  if (failed === false) yield ['result', reaches(eventTypes, 0n, NEGATIVE_MIN - 1n)];
  if (pid !== undefined) yield ['pid', hasOneOf([pid])];
  if (comms) yield ['comm', hasOneOf(comms)];
}

/** Whether an event of one of the types may have a value in [min, max]. */
function reaches(eventTypes: Ids, min: bigint, max: bigint): Rule {
  return ({ extremes }) =>
    extremes?.some((one) => eventTypes.includes(one.eventType) && one.max >= min && one.min <= max) ?? true;
}

/** `sorted` is in ascending order. */
function hasOneOf(sorted: Ids | readonly number[]): Rule {
  const isReached = ({ from, to }: Range) => (sorted[firstNotBelow(sorted, from)] ?? Number.POSITIVE_INFINITY) <= to;
  const tried = sorted.slice(0, TRIED_MAX);
  return ({ ranges, filter }) => {
    if (ranges && !ranges.some(isReached)) return false;
    return !filter || sorted.length > TRIED_MAX || tried.some((value) => hasInFilter(filter, value));
  };
}
