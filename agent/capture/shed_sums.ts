/**
 * Reads which calls the kernel side has left out while a ring filled up, summed up by owner: bpf/shed.bpf.h.
 *
 *   kernel side:  a sum for each process, context and type of event -> one of two maps
 *   probes:       puts the other map in its place, reads the map and empties it
 *   this file:    finds the owners, and adds up the sums of one service and of one transaction
 *
 * The result has a loss for each service, whose parts are the calls of each transaction. Calls that the kernel side
 * could only count have no known owner.
 */
import type { BpfMap } from 'libbpf-ts';
import { EVENTS, type EventType } from '../../bpf/schema/index.ts';
import type { Contexts } from '../attribution/contexts.ts';
import type { Processes } from '../attribution/processes.ts';
import { addLossSums, canBePart, type Loss, type LossSums } from '../recording/format/losses.ts';

/** A sum of the kernel side. Times are of CLOCK_BOOTTIME. */
export interface ShedSum extends LossSums {
  processId: number;
  contextId: number;
  contextFlags: number;
  eventType: EventType | null;
  count: number;
  /** Starts of the calls that began first and last. */
  firstNs: number;
  lastNs: number;
}

/** Calls that were left out. Times are of CLOCK_BOOTTIME. */
export interface ShedCalls extends Pick<Loss, 'eventType' | 'count' | 'sums'> {
  fromNs: number;
  toNs: number;
}

/** Calls of one service that were left out, or calls of which the service is not known. */
export interface ShedLoss extends ShedCalls {
  service?: string | undefined;
  /** The calls of each transaction; undefined if they may belong to any. */
  parts?: ReadonlyMap<string, ShedCalls> | undefined;
}

/** Creates the function that takes the sums out of the maps of the kernel side. */
export function createShedSumReader(inUse: BpfMap, maps: readonly [BpfMap, BpfMap]): () => ShedSum[] {
  const first = new Uint8Array(4);
  let at = 0;
  return () => {
    const full = maps[at]!;
    at = 1 - at;
    inUse.setMap(first, maps[at]!);
    const sums: ShedSum[] = [];
    for (const [key, value] of full.entries()) {
      full.delete(key);
      const owner = new DataView(key.slice().buffer);
      const type = owner.getUint32(20, true);
      sums.push({
        processId: Number(owner.getBigUint64(0, true)),
        contextId: Number(owner.getBigUint64(8, true)),
        contextFlags: owner.getUint32(16, true),
        eventType: EVENTS.find(({ id }) => id === type)?.name ?? null,
        ...addUpCpus(new BigUint64Array(value.slice().buffer)),
      });
    }
    return sums;
  };
}

/** Number of values in struct shed_sum. */
const VALUES = 6;

function addUpCpus(values: BigUint64Array): Omit<ShedSum, 'processId' | 'contextId' | 'contextFlags' | 'eventType'> {
  const sum = { count: 0, bytes: 0n, durationNs: 0n, longestNs: 0n, firstNs: Number.POSITIVE_INFINITY, lastNs: 0 };
  for (let at = 0; at < values.length; at += VALUES) {
    const [count, bytes, durationNs, longestNs, firstNs, lastNs] = values.subarray(at, at + VALUES);
    // A CPU without calls of this owner has only zeros.
    if (count === 0n) continue;
    sum.count += Number(count);
    sum.bytes += bytes!;
    sum.durationNs += durationNs!;
    if (longestNs! > sum.longestNs) sum.longestNs = longestNs!;
    sum.firstNs = Math.min(sum.firstNs, Number(firstNs));
    sum.lastNs = Math.max(sum.lastNs, Number(lastNs));
  }
  return sum;
}

export interface ShedOwners {
  /** Adds calls that were counted at or after `fromNs`. */
  count(eventType: EventType | null, count: number, fromNs: number): void;
  /** Whether calls were counted that no `take` has returned. */
  hasCounted(): boolean;
  /**
   * Returns the calls that were counted since the last call, by service. `sums` must have been read later than the
   * counts, and the definitions that the sums refer to must be known. Calls that the filter leaves out are not returned.
   */
  take(sums: readonly ShedSum[], nowNs: number): ShedLoss[];
}

/** Undefined fields are not known; null: no transaction. */
interface ShedOwner {
  service?: string | undefined;
  transactionId?: string | null | undefined;
}

export interface ShedOwnersOptions {
  contexts: Pick<Contexts, 'findNames' | 'isForgotten'>;
  processes: Pick<Processes, 'get'>;
  /** Whether the filter wants the calls of this process, with the service that their label names. */
  isWanted(process: ReturnType<Processes['get']>, labelled: string | null | undefined): boolean;
}

export function createShedOwners({ contexts, processes, isWanted }: ShedOwnersOptions): ShedOwners {
  /** Number of calls that were counted and not in a sum, by type. Below 0: calls in a sum that are not counted yet. */
  const counts = new Map<EventType | null, number>();
  let countedFromNs: number | undefined;

  /** Returns the owner of the sum, as far as it is known; undefined if the filter leaves the calls out. */
  function findOwner({ processId, contextId, contextFlags, firstNs, lastNs }: ShedSum): ShedOwner | undefined {
    const process = processes.get(processId);
    const names = contexts.findNames(contextId, contextFlags, firstNs);
    if (process.own || !isWanted(process, names?.service)) return undefined;
    // A lost context may have named any service. A context that ended between the calls owns only the first ones.
    if (contexts.isForgotten(contextId, contextFlags)) return {};
    if (contexts.findNames(contextId, contextFlags, lastNs) !== names) return {};
    const labelled = process.isNamedByRule ? undefined : names?.service;
    const service = labelled ?? (process.id === 0 ? undefined : process.service);
    const transactionId = names?.ids?.transactionId ?? null;
    return transactionId === null || canBePart(transactionId) ? { service, transactionId } : { service };
  }

  return {
    count(eventType, count, fromNs) {
      counts.set(eventType, (counts.get(eventType) ?? 0) + count);
      countedFromNs = Math.min(countedFromNs ?? fromNs, fromNs);
    },
    hasCounted: () => countedFromNs !== undefined,
    take(sums, nowNs) {
      const losses = new Map<string, ShedLoss & { parts: Map<string, ShedCalls> | undefined }>();
      for (const sum of sums) {
        counts.set(sum.eventType, (counts.get(sum.eventType) ?? 0) - sum.count);
        const owner = findOwner(sum);
        if (!owner) continue;
        const { service, transactionId } = owner;
        const key = JSON.stringify([sum.eventType, service, transactionId !== undefined]);
        const known = losses.get(key);
        const parts = transactionId === undefined ? undefined : (known?.parts ?? new Map<string, ShedCalls>());
        const calls = toCalls(sum);
        losses.set(key, { service, ...addUp(known, calls), parts });
        if (parts && typeof transactionId === 'string')
          parts.set(transactionId, addUp(parts.get(transactionId), calls));
      }
      const counted = [...counts].filter(([, count]) => count > 0);
      const fromNs = countedFromNs ?? nowNs;
      countedFromNs = undefined;
      for (const [eventType] of counted) counts.delete(eventType);
      return [...losses.values(), ...counted.map(([eventType, count]) => ({ eventType, count, fromNs, toNs: nowNs }))];
    },
  };
}

/** Returns the calls of a sum. The last call to begin may have been the longest. */
function toCalls({ eventType, count, bytes, durationNs, longestNs, firstNs, lastNs }: ShedSum): ShedCalls {
  const sums = { bytes, durationNs, longestNs };
  return { eventType, count, sums, fromNs: firstNs, toNs: lastNs + Number(longestNs) };
}

function addUp(known: ShedCalls | undefined, more: ShedCalls): ShedCalls {
  if (!known) return more;
  return {
    eventType: known.eventType,
    count: known.count + more.count,
    sums: addLossSums(known.sums, more.sums),
    fromNs: Math.min(known.fromNs, more.fromNs),
    toNs: Math.max(known.toNs, more.toNs),
  };
}
