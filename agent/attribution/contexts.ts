/**
 * Keeps contexts. A context names the transaction, trace or service that a marker, a program's environment or a request
 * has announced.
 */
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../bpf/schema/common.ts';
import { CONTEXT_SCOPES } from '../../bpf/schema/definitions.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { createLostServices, type LostByService } from './lost_services.ts';
import { isTransactionId, type Marker, parseMarker, parseTraceParent } from './marker.ts';
import { decodeThreadRecord, TRANSACTION_ATTRIBUTE } from './otel/thread_record.ts';
import type { Process } from './processes.ts';
import { createReferenceTable } from './reference_table.ts';

const CONTEXTS_MAX = 1 << 15;

export interface ContextDefinition {
  context_id: number;
  time_ns: number;
  pid: number;
  uid: number;
  scope: number;
  /** Id of the enclosing context; 0: none. */
  outer_context_id: number;
  /** Number of the user or cgroup that caused the definition: see current_share() of bpf/budget.bpf.h. */
  share: number;
}

export type ContextIds = Pick<Marker, 'transactionId' | 'traceId' | 'spanId'>;
type Said = ContextIds & Pick<Marker, 'service'>;

/** The owner of an event: its transaction and service, with their ids in the recording. */
export interface Owner {
  /** Transaction, trace and span; undefined if the context names only a service or cannot be parsed. */
  ids: ContextIds | undefined;
  /** The id of `ids` in the recording; 0: none. */
  contextId: number;
  /** The service that a trusted marker named, and the service's id in the recording; null and 0 if there is none. */
  service: string | null;
  serviceId: number;
  /** Time (CLOCK_BOOTTIME) at which the task that set the context ended it. */
  endedNs: number;
}

/** The process that the loss of a missing context is charged to. */
export type Writer = Pick<Process, 'id' | 'service' | 'share'>;

export interface OwnerLookup {
  /**
   * Returns the ids and the service that the event's owner names; undefined if the owner is unknown. Does not add them
   * to the recording; findOwner() does. The result stays the same for as long as the owner applies.
   */
  findNames(contextId: number, flags: number, startNs: number): Pick<Owner, 'ids' | 'service'> | undefined;
  /**
   * Returns the owner of an event that started at `startNs`; undefined if the owner is unknown. A missing context
   * counts as a loss of `process`.
   */
  findOwner(contextId: number, flags: number, startNs: number, process?: Writer): Owner | undefined;
  /**
   * Whether the event's context was lost or is no longer in the table. Always false for a context with BY_REFERENCE
   * flags, which has usually ended before it leaves the table.
   */
  isForgotten(contextId: number, flags: number): boolean;
  /** Returns the recording's id of the transaction and trace in `ids`, without the span; 0 if the recording is full. */
  internWithoutSpan(ids: ContextIds): number;
}

export interface Contexts extends OwnerLookup {
  /** Adds a context. `text` is the marker's line, a W3C traceparent, or the bytes of a thread's record as Latin-1. */
  define(definition: ContextDefinition, text: string): void;
  end(contextId: number, timeNs: number): void;
  /**
   * Ends all contexts at `timeNs`. Called after a loss of messages that end contexts: since `timeNs`, it is unknown
   * which contexts have ended.
   */
  endAll(timeNs: number): void;
  /**
   * Notes the loss of a marker that may have named a service, because its writer is unknown or trusted. The service
   * would also apply to processes that inherit the marker.
   */
  noteLostMarker(): void;
  /** Lookup without loss counts, for calls in progress. Their missing contexts are counted when the calls end. */
  readonly uncounted: OwnerLookup;
  /** Number of malformed marker fields that were left out since the start. */
  readonly badFieldCount: number;
  /**
   * Returns the losses since the last call: contexts that did not fit into the recording, and references to contexts
   * that are no longer in the table. The key is the service of the process whose events lost their context.
   */
  takeLost(): LostByService;
}

export interface ContextsOptions {
  /** Returns the recording's id of a context. */
  intern(ids: ContextIds): number;
  internName(text: string): number;
  /** The smallest valid ids. A context or name with a smaller id must be interned again before it is written. */
  oldestIds: { readonly context: number; readonly name: number };
  /** Returns the attribute names that the thread records of process `pid` refer to by index. */
  getThreadKeys(pid: number): readonly string[];
  /** Whether a writer with this user id may name its service. */
  trustsService(uid: number): boolean;
}

export const SOURCE_NONE = ATTRIBUTION_SOURCES.indexOf('none');
export const SOURCE_ORIGIN = ATTRIBUTION_SOURCES.indexOf('origin');
export const SOURCE_MARKER = ATTRIBUTION_SOURCES.indexOf('marker');
export const SOURCE_ENVIRONMENT = ATTRIBUTION_SOURCES.indexOf('env');
export const SOURCE_OTEL = ATTRIBUTION_SOURCES.indexOf('otel');
export const SOURCE_HTTP = ATTRIBUTION_SOURCES.indexOf('http');
export const SOURCE_INHERITED = ATTRIBUTION_SOURCES.indexOf('inherited');
export const QUALITY_NONE = ATTRIBUTION_QUALITIES.indexOf('none');
export const QUALITY_EXACT = ATTRIBUTION_QUALITIES.indexOf('exact');
export const QUALITY_INHERITED = ATTRIBUTION_QUALITIES.indexOf('inherited');
export const QUALITY_AMBIGUOUS = ATTRIBUTION_QUALITIES.indexOf('ambiguous');
export const QUALITY_SHARED = ATTRIBUTION_QUALITIES.indexOf('shared');

export const INHERITED_FLAGS = CONTEXT_FLAGS.CONTEXT_INHERITED_PROCESS | CONTEXT_FLAGS.CONTEXT_INHERITED_THREAD;

/**
 * A context with these flags no longer applies to events after its end. Otherwise a pool's thread would keep its
 * creator's context forever, and a process that outlives its request would keep the request's context. A thread may
 * also have passed its request to another thread, which answers it.
 */
export const BY_REFERENCE = CONTEXT_FLAGS.CONTEXT_INHERITED_THREAD | CONTEXT_FLAGS.CONTEXT_HTTP;

const hasEnded = (owner: Owner, flags: number, startNs: number) =>
  (flags & BY_REFERENCE) !== 0 && startNs >= owner.endedNs;

export function createContexts(options: ContextsOptions): Contexts {
  const { intern, internName, oldestIds, getThreadKeys, trustsService } = options;
  const contexts = createReferenceTable<Owner>(CONTEXTS_MAX);
  let badFieldCount = 0;
  let mayHaveNamedService = false;
  const lost = createLostServices(trustsService);

  function parseThreadContext(text: string, pid: number, outer: ContextIds | undefined): Said | undefined {
    const record = decodeThreadRecord(Buffer.from(text, 'latin1'), getThreadKeys(pid));
    if (!record) return outer && { ...outer, service: null };
    const { traceId, spanId } = record.traceId === null && outer ? outer : record;
    const named = record.attributes.get(TRANSACTION_ATTRIBUTE);
    const transactionId = named !== undefined && isTransactionId(named) ? named : (outer?.transactionId ?? null);
    return { transactionId, traceId, spanId, service: null };
  }

  function findOuterIds(contextId: number, timeNs: number): ContextIds | undefined {
    const outer = contexts.get(contextId);
    return outer && timeNs < outer.endedNs ? outer.ids : undefined;
  }

  function parseContext({ scope, outer_context_id, pid, time_ns }: ContextDefinition, text: string): Said | undefined {
    if (scope === CONTEXT_SCOPES.SCOPE_ENVIRONMENT || scope === CONTEXT_SCOPES.SCOPE_HTTP) {
      const parent = parseTraceParent(text);
      return parent && { transactionId: null, ...parent, service: null };
    }
    const outer = findOuterIds(outer_context_id, time_ns);
    if (scope === CONTEXT_SCOPES.SCOPE_OTEL) return parseThreadContext(text, pid, outer);
    const marker = parseMarker(text);
    if (!marker) return undefined;
    badFieldCount += marker.badFields;
    // A marker without a trace names a transaction within the trace of the outer context.
    return outer && marker.traceId === null
      ? { ...marker, traceId: outer.traceId, spanId: marker.spanId ?? outer.spanId }
      : marker;
  }

  const isForgotten = (contextId: number, flags: number) =>
    contextId !== 0 &&
    (flags & BY_REFERENCE) === 0 &&
    (contextId === CONTEXT_LOST || contexts.get(contextId) === undefined);

  function internOwner(contextId: number, flags: number, startNs: number, loses: () => void): Owner | undefined {
    if (contextId === 0) return undefined;
    const owner = contexts.get(contextId);
    if (!owner) {
      // A context with one of these flags has usually ended before it leaves the table, so its absence is not a loss.
      if (contextId !== CONTEXT_LOST && (flags & BY_REFERENCE) === 0) loses();
      return undefined;
    }
    if (!owner.ids && !owner.service) return undefined;
    if (hasEnded(owner, flags, startNs)) return undefined;
    if (owner.ids && owner.contextId < oldestIds.context) {
      owner.contextId = intern(owner.ids);
      if (owner.contextId === 0) {
        loses();
        return undefined;
      }
    }
    if (owner.service && owner.serviceId < oldestIds.name) owner.serviceId = internName(owner.service);
    return owner;
  }

  const lookup = {
    isForgotten,
    findNames(contextId: number, flags: number, startNs: number) {
      const owner = contexts.get(contextId);
      return owner && !hasEnded(owner, flags, startNs) ? owner : undefined;
    },
    internWithoutSpan: (ids: ContextIds) => intern({ ...ids, spanId: null }),
  };

  return {
    ...lookup,
    findOwner(contextId, flags, startNs, process) {
      const inherits = (flags & CONTEXT_FLAGS.CONTEXT_INHERITED_PROCESS) !== 0;
      // The kernel side counts a lost marker only for the process that wrote it. A process that inherits the marker may
      // belong to another service.
      if (contextId === CONTEXT_LOST && inherits && process) lost.add(mayHaveNamedService ? undefined : process, 1);
      return internOwner(contextId, flags, startNs, () => lost.add(inherits ? undefined : process, 1));
    },
    uncounted: {
      ...lookup,
      findOwner: (contextId, flags, startNs) => internOwner(contextId, flags, startNs, () => {}),
    },
    define(definition, text) {
      const context = parseContext(definition, text);
      const { transactionId = null, traceId = null, spanId = null } = context ?? {};
      const ids = transactionId || traceId || spanId ? { transactionId, traceId, spanId } : undefined;
      const service = trustsService(definition.uid) ? (context?.service ?? null) : null;
      const { context_id, share } = definition;
      // The ids stay 0 until an event of the context is kept; only then is the context written to the recording.
      const owner = { ids, contextId: 0, service, serviceId: 0, endedNs: Number.POSITIVE_INFINITY };
      contexts.set(context_id, owner, share);
    },
    end(contextId, timeNs) {
      const owner = contexts.get(contextId);
      if (owner) owner.endedNs = Math.min(owner.endedNs, timeNs);
    },
    endAll(timeNs) {
      for (const owner of contexts.values()) owner.endedNs = Math.min(owner.endedNs, timeNs);
    },
    noteLostMarker() {
      mayHaveNamedService = true;
    },
    get badFieldCount() {
      return badFieldCount;
    },
    takeLost: lost.take,
  };
}
