/**
 * The filter of a scan, and its resolved form for one recording. Resolving converts texts to ids, and clamps bounds to
 * the range of u64.
 */

import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { getApiName } from '../../../bpf/schema/define.ts';
import { EVENTS, type EventType } from '../../../bpf/schema/index.ts';
import type { Kind } from '../../../bpf/schema/kinds.ts';
import { U64_MAX } from '../../../daemon/base/bigints.ts';
import { typeMask } from '../codec/segment_facts.ts';
import type { Lookup } from './lookup.ts';

/** Values that events may have. An event has a service if that service owns the event or a part of it. */
export interface EventValues extends OwnTexts {
  services?: readonly string[];
  nodes?: readonly string[];
  eventTypes?: readonly EventType[];
  comms?: readonly string[];
  /** Results of failed events, which are negative. */
  results?: readonly bigint[];
}

/**
 * The filter of a scan; an event must meet all given conditions. A condition on owners matches the event's own owner or
 * any of its origins.
 */
export interface EventFilter extends EventValues {
  transactionId?: string;
  traceId?: string;
  /** Values that exclude an event. */
  excluded?: EventValues;
  /** Range of the event's start, [fromNs, toNs). */
  fromNs?: bigint;
  toNs?: bigint;
  /** Inclusive bounds of the duration. */
  minDurationNs?: bigint;
  maxDurationNs?: bigint;
  pid?: number;
  /** `true` selects events with a negative result, `false` all other events. */
  failed?: boolean;
}

/** Ids of a dictionary in ascending order, without duplicates. */
export type SortedIds = Uint32Array;

export interface ResolvedFilter {
  eventTypes: SortedIds;
  typeMask: bigint;
  /** Inclusive bounds of the start. */
  firstNs: bigint;
  lastNs: bigint;
  minDurationNs: bigint;
  maxDurationNs: bigint;
  /** Sets of contexts; the event must have a context in each set. */
  contexts: readonly SortedIds[];
  /**
   * Contexts that limit which segments are read: every segment with a matching event has one of these contexts, as
   * owner, origin or queuer. Undefined if any segment may match.
   */
  inSegments: SortedIds | undefined;
  services: SortedIds | undefined;
  pid: number | undefined;
  comms: SortedIds | undefined;
  failed: boolean | undefined;
  results: ReadonlySet<bigint> | undefined;
  /** Conditions on type-specific fields that an event must meet. */
  own: readonly OwnCondition[];
  /** Conditions that exclude an event; meeting one of them is enough. */
  excluded: { own: readonly OwnCondition[] } & Pick<ResolvedFilter, 'services' | 'comms' | 'results'>;
}

/** Resolves a filter; returns undefined if no event of this recording can match. */
export function resolveFilter(filter: EventFilter, lookup: Lookup, node: string): ResolvedFilter | undefined {
  const own = ownConditions(filter, lookup);
  const ids = selectEventTypeIds(filter, own);
  const contexts: SortedIds[] = [];
  if (filter.transactionId !== undefined)
    contexts.push(toSortedIds(lookup.findContextsByTransaction(filter.transactionId)));
  if (filter.traceId !== undefined) contexts.push(toSortedIds(lookup.findContextsByTrace(filter.traceId)));
  const nameIds = (names: readonly string[] | undefined) => names && toSortedIds(names.flatMap(lookup.nameIds));
  const services = nameIds(filter.services);
  const comms = nameIds(filter.comms);
  const excluded = filter.excluded ?? {};
  const resolved: ResolvedFilter = {
    eventTypes: toSortedIds(ids),
    typeMask: typeMask(ids),
    firstNs: clampToZero(filter.fromNs ?? 0n),
    lastNs: clampToU64((filter.toNs ?? U64_MAX + 1n) - 1n),
    minDurationNs: clampToZero(filter.minDurationNs ?? 0n),
    maxDurationNs: clampToU64(filter.maxDurationNs ?? U64_MAX),
    contexts,
    inSegments: contexts[0] ?? collectQueuers(own),
    services,
    pid: filter.pid,
    comms,
    failed: filter.failed ?? (filter.results && true),
    results: filter.results && new Set(filter.results),
    own,
    excluded: {
      services: omitEmpty(nameIds(excluded.services)),
      comms: omitEmpty(nameIds(excluded.comms)),
      results: excluded.results && new Set(excluded.results),
      own: ownConditions(excluded, lookup).filter(({ length }) => length > 0),
    },
  };
  const impossible =
    (filter.nodes && !filter.nodes.includes(node)) ||
    excluded.nodes?.includes(node) ||
    ids.length === 0 ||
    resolved.firstNs > resolved.lastNs ||
    resolved.minDurationNs > resolved.maxDurationNs ||
    [...contexts, services, comms].some((some) => some?.length === 0);
  return impossible ? undefined : resolved;
}

/**
 * Finds the ids of a filter's files in steps. Callers use it before `resolveFilter`, because this is the slowest part
 * of resolving a filter.
 */
export function* lookForFiles({ files, excluded }: EventFilter, lookup: Lookup): Generator<void, void> {
  for (const patterns of [files, excluded?.files]) if (patterns) yield* lookup.files.findInSteps(patterns);
}

/** Returns the ids of the event types that can match: the wanted types that have every field with a condition. */
function selectEventTypeIds({ eventTypes, excluded }: EventFilter, own: readonly OwnCondition[]): number[] {
  return EVENTS.filter(
    ({ name, id }) =>
      (!eventTypes || eventTypes.includes(name)) &&
      !excluded?.eventTypes?.includes(name) &&
      own.every((condition) => condition.some(({ column }) => column.eventType === id)),
  ).map(({ id }) => id);
}

/** Returns the contexts of the queuers that the conditions select; undefined if there is no condition on queuers. */
function collectQueuers(own: readonly OwnCondition[]): SortedIds | undefined {
  const condition = own.find((values) => values.some(({ column }) => column.source === 'queuer'));
  return condition && toSortedIds(condition.flatMap(({ numbers }) => [...numbers]));
}

/** Replaces an empty list by undefined: no event has the excluded names, so they exclude nothing. */
function omitEmpty(ids: SortedIds | undefined): SortedIds | undefined {
  return ids && ids.length > 0 ? ids : undefined;
}

function toSortedIds(ids: readonly number[]): SortedIds {
  return Uint32Array.from(new Set(ids)).sort();
}

function clampToZero(value: bigint): bigint {
  return value < 0n ? 0n : value;
}

function clampToU64(value: bigint): bigint {
  return value > U64_MAX ? U64_MAX : value;
}

/*
 * Conditions on fields that only some event types have. Resolving converts the texts of a condition to numbers,
 * separately for each event type.
 */

/** Texts that a field may have. For files, the texts are patterns. */
export interface OwnTexts {
  operations?: readonly string[];
  syscalls?: readonly string[];
  devices?: readonly string[];
  files?: readonly string[];
  /** Transaction ids of the tasks that queued requests. */
  queuers?: readonly string[];
}

/** The event field that each list applies to. */
export const OWN_FIELDS = {
  operations: 'operation',
  syscalls: 'syscall',
  devices: 'device',
  files: 'file',
  queuers: 'queued_by',
} as const satisfies Record<keyof OwnTexts, string>;

export type OwnField = (typeof OWN_FIELDS)[keyof OwnTexts];

/** Returns the name of the column that a condition on the field checks. */
export function nameConditionColumn(event: string, field: string, { source }: Kind): string {
  return `${event}.${field}${source === 'queuer' ? '_context' : ''}`;
}

interface OwnColumn {
  column: Column;
  kind: Kind;
}

const findFieldColumns = (field: string): OwnColumn[] =>
  EVENTS.flatMap((event) =>
    Object.entries(event.fields)
      .filter(([name, of]) => getApiName(name, of) === field)
      .map(([, { kind }]) => {
        const own = nameConditionColumn(event.name, field, kind);
        return { kind, column: COLUMNS.find(({ name }) => name === own)! };
      }),
  );

/** For each list of texts, the columns that its condition checks: one for each event type that has the field. */
export const CONDITION_COLUMNS = Object.entries(OWN_FIELDS).map(([texts, field]) => ({
  texts: texts as keyof OwnTexts,
  columns: findFieldColumns(field),
}));

/** Values of a column of one event type; the numbers are in ascending order, without duplicates. */
interface OwnValues {
  column: Column;
  numbers: Uint32Array;
}

/** A condition that an event meets if it has any of these values. */
export type OwnCondition = readonly OwnValues[];

/** Returns a condition for each given field. The condition is empty if no event of this recording can meet it. */
function ownConditions(given: OwnTexts, lookup: Lookup): OwnCondition[] {
  return CONDITION_COLUMNS.flatMap(({ texts, columns }) => {
    const wanted = given[texts];
    return wanted ? [columns.flatMap((own) => findOwnValues(own, wanted, lookup))] : [];
  });
}

function findOwnValues({ column, kind }: OwnColumn, wanted: readonly string[], lookup: Lookup): OwnValues[] {
  // The ids of files are sorted and unique already. They are not sorted again because there may be very many.
  const numbers =
    kind.source === 'file'
      ? lookup.files.find(wanted)
      : Uint32Array.from(new Set(wanted.flatMap((text) => findNumbers(kind, text, lookup)))).sort();
  return numbers.length > 0 ? [{ column, numbers }] : [];
}

function findNumbers({ source, labels }: Kind, text: string, lookup: Lookup): number[] {
  if (source === 'text') return lookup.nameIds(text);
  if (source === 'queuer') return lookup.findContextsByTransaction(text);
  return [...(labels ?? [])].filter(([, label]) => label === text).map(([number]) => number);
}
