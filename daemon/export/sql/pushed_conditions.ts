/**
 * Converts conditions of an SQL query to the filter of a scan. SQLite checks the conditions again, so the filter may
 * pass rows that do not satisfy them, but must not drop rows that do.
 */

import { EVENT_TYPES, type EventType } from '../../../bpf/schema/index.ts';
import { parseEventId } from '../../base/event_id.ts';
import type { EventFilter } from '../../store/store.ts';
import type { Operand, Operator } from './native_tables.ts';

/** Null if no row can satisfy the conditions. */
export type Narrowed = (EventFilter & { eventNumber?: bigint }) | null;

interface Pushed {
  /** Letters of the operators, see `Operator`. */
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
 * Values above 2^63 - 1 are texts in rows, and any text is greater than any number, so these values satisfy every lower
 * bound.
 */
const clampToTexts = (min: bigint) => (min > 2n ** 63n ? 2n ** 63n : min);

/** Returns unlimited bounds for an operand that is not a number: SQLite then excludes rows by its own rules. */
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

/** Adds the bounds that are not undefined. */
function addBounds<Key extends 'fromNs' | 'toNs' | 'minDurationNs' | 'maxDurationNs'>(
  filter: EventFilter,
  bounds: Readonly<Record<Key, bigint | undefined>>,
): EventFilter {
  const given = Object.entries(bounds).filter(([, bound]) => bound !== undefined);
  return { ...filter, ...Object.fromEntries(given) };
}

/** Returns the operands that are texts; operands of other types do not equal any text. */
function selectTexts(operand: Operand | Operand[]): string[] {
  return (Array.isArray(operand) ? operand : [operand]).filter((text) => typeof text === 'string');
}

/** `many` means that the filter accepts a list, so that IN needs only one scan. No filter matches an empty name. */
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

/** Returns the items that are in both lists; the first list may be absent. */
function intersectLists<Item>(before: readonly Item[] | undefined, items: readonly Item[]): readonly Item[] {
  return before ? before.filter((item) => items.includes(item)) : items;
}

/** A filter that already selects another text is left unchanged: SQLite excludes the other rows. */
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
  // This filter also passes events of which a service owns only a part, as a condition on `of_service` requires.
  // Therefore an existing filter from `of_service` is kept.
  service_name: createTextCondition(true, (filter, names) => ({ services: names, ...filter })),
  node: createTextCondition(true, (filter, names) => ({ ...filter, nodes: intersectLists(filter.nodes, names) })),
};
