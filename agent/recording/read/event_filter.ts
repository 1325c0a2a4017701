/** The filter of a scan, and its resolved form for one recording: texts become ids, bounds become numbers that fit. */
import { EVENTS, type EventType } from '../../../bpf/schema/index.ts';
import { typeMask } from '../codec/segment_facts.ts';
import { U64_MAX } from '../format/schema.ts';
import type { Lookup } from './lookup.ts';

/** All given conditions must hold. Owner filters match the event's own owner or any of its origins. */
export interface EventFilter {
  transactionId?: string;
  traceId?: string;
  services?: readonly string[];
  nodes?: readonly string[];
  eventTypes?: readonly EventType[];
  /** Half-open range of the start: [fromNs, toNs). */
  fromNs?: bigint;
  toNs?: bigint;
  /** Inclusive bounds of the duration. */
  minDurationNs?: bigint;
  maxDurationNs?: bigint;
  pid?: number;
  comm?: string;
  /** Whether the result is negative. */
  failed?: boolean;
}

/** Ids of a dictionary in ascending order, each once. */
export type Ids = Uint32Array;

export interface ResolvedFilter {
  eventTypes: Ids;
  typeMask: bigint;
  /** Inclusive bounds of the start. */
  firstNs: bigint;
  lastNs: bigint;
  minDurationNs: bigint;
  maxDurationNs: bigint;
  /** Each of these must contain a context of the event. */
  contexts: readonly Ids[];
  services: Ids | undefined;
  pid: number | undefined;
  comms: Ids | undefined;
  failed: boolean | undefined;
}

/** Returns undefined when nothing in this recording can match. */
export function resolveFilter(filter: EventFilter, lookup: Lookup, node: string): ResolvedFilter | undefined {
  const ids = EVENTS.filter(({ name }) => !filter.eventTypes || filter.eventTypes.includes(name)).map(({ id }) => id);
  const contexts: Ids[] = [];
  if (filter.transactionId !== undefined) contexts.push(idsOf(lookup.contextsOfTransaction(filter.transactionId)));
  if (filter.traceId !== undefined) contexts.push(idsOf(lookup.contextsOfTrace(filter.traceId)));
  const services = filter.services && idsOf(filter.services.flatMap(lookup.nameIds));
  const comms = filter.comm === undefined ? undefined : idsOf(lookup.nameIds(filter.comm));
  const resolved: ResolvedFilter = {
    eventTypes: idsOf(ids),
    typeMask: typeMask(ids),
    firstNs: atLeastZero(filter.fromNs ?? 0n),
    lastNs: atMost((filter.toNs ?? U64_MAX + 1n) - 1n),
    minDurationNs: atLeastZero(filter.minDurationNs ?? 0n),
    maxDurationNs: atMost(filter.maxDurationNs ?? U64_MAX),
    contexts,
    services,
    pid: filter.pid,
    comms,
    failed: filter.failed,
  };
  const impossible =
    (filter.nodes && !filter.nodes.includes(node)) ||
    ids.length === 0 ||
    resolved.firstNs > resolved.lastNs ||
    resolved.minDurationNs > resolved.maxDurationNs ||
    [...contexts, services, comms].some((some) => some?.length === 0);
  return impossible ? undefined : resolved;
}

function idsOf(ids: readonly number[]): Ids {
  return Uint32Array.from(new Set(ids)).sort();
}

function atLeastZero(value: bigint): bigint {
  return value < 0n ? 0n : value;
}

function atMost(value: bigint): bigint {
  return value > U64_MAX ? U64_MAX : value;
}
