/**
 * Sums up what is lost by the service that it is of. A label that is lost changes nothing but the events of the process
 * that set it, and of those that inherit it. Without the label these have the service of their process, unless the label
 * could have named another one: only who is trusted may do so.
 */
import type { Process } from './processes.ts';

/** The service is undefined where it could be any. */
export type LostByService = ReadonlyMap<string | undefined, number>;

export interface LostServices {
  add(process: Pick<Process, 'id' | 'service' | 'share'> | undefined, count: number): void;
  /** Returns what was added since the last call. */
  take(): LostByService;
}

const NOTHING: LostByService = new Map();

/** Each has a row of its own in the recording in each flush, so there may not be any number of them. */
const SERVICES_MAX = 256;
/** Larger shares are those of root, or of namespaces that root has made. */
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
