/**
 * Sums up losses by the service that they affect. A lost label affects only the events of the process that set it, and
 * of the processes that inherit it. Without the label, these events have the service of their process, unless the label
 * could have named another service, which only trusted users may do.
 */
import type { Process } from './processes.ts';

/** The service is undefined for losses that may affect any service. */
export type LostByService = ReadonlyMap<string | undefined, number>;

export interface LostServices {
  add(process: Pick<Process, 'id' | 'service' | 'share'> | undefined, count: number): void;
  /** Returns the losses that were added since the last call. */
  take(): LostByService;
}

const NOTHING: LostByService = new Map();

/** Maximum number of services counted by name, as each takes a row of the recording in each flush. */
const SERVICES_MAX = 256;
/** Shares with larger numbers belong to root, or to namespaces that root has made. */
const USERS_END = 2 ** 32;

export function createLostServices(trustsService: (uid: number) => boolean): LostServices {
  const known = new Set<string>();
  let lost = new Map<string | undefined, number>();

  function chooseLossService({ id, service, share }: Pick<Process, 'id' | 'service' | 'share'>): string | undefined {
    const isOfUser = id !== 0 && share > 0 && share < USERS_END && !trustsService(share);
    if (!isOfUser || (known.size >= SERVICES_MAX && !known.has(service))) return undefined;
    known.add(service);
    return service;
  }

  return {
    add(process, count) {
      const service = process && chooseLossService(process);
      lost.set(service, (lost.get(service) ?? 0) + count);
    },
    take() {
      if (lost.size === 0) return NOTHING;
      const taken = lost;
      lost = new Map();
      return taken;
    },
  };
}
