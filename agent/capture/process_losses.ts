/** Reads which processes lost markers and names of files, from the map `process_losses` of bpf/kreplay.bpf.h. */
import type { BpfMap } from 'libbpf-ts';
import { createLostServices, type LostByService } from '../attribution/lost_services.ts';
import type { Processes } from '../attribution/processes.ts';

export interface ProcessLosses {
  /**
   * Returns the definitions lost since the last call by record type, divided among services. `counts` has all new
   * losses by record type, including the losses in the map, and must be read before this call.
   */
  take(counts: ReadonlyMap<number, number>): Map<number, LostByService>;
}

interface TypeLosses {
  lost: ReturnType<typeof createLostServices>;
  /** Losses that the map already had but `counts` did not yet include. The next `counts` will include them. */
  ahead: number;
}

export function createProcessLosses(
  map: Pick<BpfMap, 'keys' | 'get'>,
  processes: Pick<Processes, 'get'>,
  trustsService: (uid: number) => boolean,
): ProcessLosses {
  const value = new BigUint64Array(1);
  const bytes = new Uint8Array(value.buffer);
  const types = new Map<number, TypeLosses>();
  let totals = new Map<string, number>();

  function findOrAddKnown(type: number): TypeLosses {
    const known = types.get(type) ?? { lost: createLostServices(trustsService), ahead: 0 };
    types.set(type, known);
    return known;
  }

  function shareOut(): Map<number, number> {
    const now = new Map<string, number>();
    const found = new Map<number, number>();
    for (const key of map.keys()) {
      if (!map.get(key, bytes)) continue;
      const [id, type] = Array.from(new BigUint64Array(key.slice().buffer), Number) as [number, number];
      const total = Number(value[0]);
      const before = totals.get(`${id} ${type}`) ?? 0;
      // If the map evicted the process and added it again, the count has restarted from 0.
      const more = total < before ? total : total - before;
      now.set(`${id} ${type}`, total);
      if (more === 0) continue;
      found.set(type, (found.get(type) ?? 0) + more);
      findOrAddKnown(type).lost.add(processes.get(id), more);
    }
    totals = now;
    return found;
  }

  return {
    take(counts) {
      if (counts.size === 0) return new Map();
      const found = shareOut();
      const shared = new Map<number, LostByService>();
      for (const type of new Set([...counts.keys(), ...found.keys()])) {
        const known = findOrAddKnown(type);
        const nobodys = (counts.get(type) ?? 0) - known.ahead - (found.get(type) ?? 0);
        known.ahead = Math.max(0, -nobodys);
        if (nobodys > 0) known.lost.add(undefined, nobodys);
        shared.set(type, known.lost.take());
      }
      return shared;
    },
  };
}
