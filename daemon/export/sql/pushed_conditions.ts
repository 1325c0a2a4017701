/**
 * Converts conditions of an SQL query to the filter of a scan. SQLite checks the conditions again, so the filter may
 * let other rows pass, but it must not exclude a row that satisfies the conditions.
 */

import { EVENT_TYPES, type EventType } from '../../../bpf/schema/index.ts';
import { parseEventId } from '../../base/event_id.ts';
import type { EventFilter } from '../../store/store.ts';
import type { Operand, Operator } from './native_tables.ts';

/** A filter narrowed by conditions; null if no row can satisfy them. */
export type Narrowed = (EventFilter & { eventNumber?: bigint }) | null;

interface Pushed {
  /** Letters of the supported operators (see `Operator`). */
  operators: string;
  narrow(filter: EventFilter, operator: Operator, operand: Operand | Operand[]): Narrowed;
}

const RANGE = '=>g<l';
const U32_MAX = 2n ** 32n - 1n;

/** Inclusive bounds of integers. */
interface Bounds {
  min?: bigint;
  max?: bigint;
}

/**
 * Limits a lower bound to 2^63. Values above 2^63 - 1 are texts in SQL, and SQLite orders every text after every
 * number, so these values satisfy every lower bound.
 */
const clampToTexts = (min: bigint) => (min > 2n ** 63n ? 2n ** 63n : min);

/**
 * Returns the bounds that a condition sets; null if no integer satisfies it. For an operand that is not a number, the
 * bounds are unlimited, and SQLite excludes rows by its own rules.
 */
function computeBounds(operator: Operator, operand: Operand | Operand[]): Bounds | null {
  if (operand === null) return null;
  if (typeof operand === 'number' && !Number.isFinite(operand)) return {};
  if (typeof operand !== 'bigint' && typeof operand !== 'number') return {};
  const [down, up] =
    typeof operand === 'bigint' ? [operand, operand] : [BigInt(Math.floor(operand)), BigInt(Math.ceil(operand))];
  switch (operator) {
    case '=':
      return down === up ? { min: up, max: down } : null;
    case '>':
      return { min: clampToTexts(down + 1n) };
    case 'g':
      return { min: clampToTexts(up) };
    case '<':
      return { max: up - 1n };
    case 'l':
      return { max: down };
    case 'i':
      return {};
  }
}

function createRangeCondition(apply: (filter: EventFilter, bounds: Bounds) => Narrowed): Pushed {
  return {
    operators: RANGE,
    narrow(filter, operator, operand) {
      const bounds = computeBounds(operator, operand);
      return bounds && apply(filter, bounds);
    },
  };
}

const later = (a: bigint | undefined, b: bigint | undefined) => (a === undefined || (b !== undefined && b > a) ? b : a);
const earlier = (a: bigint | undefined, b: bigint | undefined) =>
  a === undefined || (b !== undefined && b < a) ? b : a;
const after = (bound: bigint | undefined) => (bound === undefined ? undefined : bound + 1n);

/** Adds the bounds to the filter, except undefined ones. */
function addBounds<Key extends 'fromNs' | 'toNs' | 'minDurationNs' | 'maxDurationNs'>(
  filter: EventFilter,
  bounds: Readonly<Record<Key, bigint | undefined>>,
): EventFilter {
  const given = Object.entries(bounds).filter(([, bound]) => bound !== undefined);
  return { ...filter, ...Object.fromEntries(given) };
}

/** Returns the operands that are texts. Operands of other types never equal a text. */
function selectTexts(operand: Operand | Operand[]): string[] {
  return (Array.isArray(operand) ? operand : [operand]).filter((text) => typeof text === 'string');
}

/**
 * Creates a condition on a text column. `many` means that the filter accepts a list, so that one scan serves a whole IN
 * list. An empty text is not passed to the filter, because filters cannot select it.
 */
function createTextCondition(
  many: boolean,
  apply: (filter: EventFilter, texts: [string, ...string[]]) => Narrowed,
): Pushed {
  return {
    operators: many ? '=i' : '=',
    narrow(filter, _, operand) {
      const [first, ...others] = selectTexts(operand);
      if (first === undefined) return null;
      return first === '' || others.includes('') ? filter : apply(filter, [first, ...others]);
    },
  };
}

/** Returns the items that are in both lists; an undefined first list contains everything. */
function intersectLists<Item>(before: readonly Item[] | undefined, items: readonly Item[]): readonly Item[] {
  return before ? before.filter((item) => items.includes(item)) : items;
}

/**
 * Adds the text to the filter, but does not replace a text that is already there. In that case, SQLite excludes the
 * other rows.
 */
const createTextFilter =
  (name: 'transactionId' | 'traceId') =>
  (filter: EventFilter, [text]: [string, ...string[]]): EventFilter => ({ [name]: text, ...filter });

export const PUSHED: Readonly<Record<string, Pushed>> = {
  event_id: createTextCondition(false, (filter, [id]) => {
    const parsed = parseEventId(id);
    return parsed ? { ...filter, eventNumber: parsed.number } : null;
  }),
  event_type: createTextCondition(true, (filter, names) => {
    const wanted = EVENT_TYPES.filter((type) => names.includes(type));
    return { ...filter, eventTypes: intersectLists<EventType>(filter.eventTypes, wanted) };
  }),
  timestamp_ns: createRangeCondition((filter, { min, max }) =>
    addBounds(filter, { fromNs: later(filter.fromNs, min), toNs: earlier(filter.toNs, after(max)) }),
  ),
  duration_ns: createRangeCondition((filter, { min, max }) =>
    addBounds(filter, {
      minDurationNs: later(filter.minDurationNs, min),
      maxDurationNs: earlier(filter.maxDurationNs, max),
    }),
  ),
  pid: createRangeCondition((filter, { min, max }) => {
    if (min === undefined || min !== max) return filter;
    if (min < 0n || min > U32_MAX) return null;
    return { pid: Number(min), ...filter };
  }),
  result: createRangeCondition((filter, { min, max }) => {
    if (max !== undefined && max < 0n) return { failed: true, ...filter };
    return min !== undefined && min >= 0n ? { failed: false, ...filter } : filter;
  }),
  comm: createTextCondition(true, (filter, names) => ({ ...filter, comms: intersectLists(filter.comms, names) })),
  transaction_id: createTextCondition(false, createTextFilter('transactionId')),
  trace_id: createTextCondition(false, createTextFilter('traceId')),
  // The filter by service includes events that a service owns only in part, as `of_service` requires. Therefore, a list
  // that `of_service` has already set is kept.
  service_name: createTextCondition(true, (filter, names) => ({ services: names, ...filter })),
  node: createTextCondition(true, (filter, names) => ({ ...filter, nodes: intersectLists(filter.nodes, names) })),
};
