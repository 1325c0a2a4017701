/**
 * Sums up losses by the service that they affect. A lost label affects only events of the process that set it, and of
 * the processes that inherit it. Without the label, these events have the service of their process. A lost label of a
 * trusted user could have named any other service, so its loss may affect all services.
 */
import type { Process } from './processes.ts';

/** Number of losses by service. The key is undefined for losses that may affect any service. */
export type LostByService = ReadonlyMap<string | undefined, number>;

export interface LostServices {
  add(process: Pick<Process, 'id' | 'service' | 'share'> | undefined, count: number): void;
  /** Returns the losses that were added since the last call. */
  take(): LostByService;
}

const NOTHING: LostByService = new Map();

/** Maximum number of services that are counted by name. Each of them takes a row of the recording in each flush. */
const SERVICES_MAX = 256;
/** Upper bound of the share numbers of users. Larger numbers belong to root, or to namespaces that root has made. */
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
