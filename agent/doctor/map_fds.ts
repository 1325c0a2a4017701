/** What the kernel says of the maps that this process holds: bpf_map_show_fdinfo(). */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Kernel memory of maps. */
export interface MapsTaken {
  bytes: number;
  /** False: it is more, by what the kernel does not count. */
  isAll: boolean;
}

/** BPF_MAP_TYPE_RINGBUF of include/uapi/linux/bpf.h. */
const RING = 27;

/**
 * Before 6.4 a kernel reckons keys and values only, of which a ring has none; after that it counts what is allocated.
 * Undefined: it says nothing.
 */
export function memoryOfMaps(fdinfos: readonly string[]): MapsTaken | undefined {
  let taken: MapsTaken | undefined;
  for (const fdinfo of fdinfos) {
    const numberOf = (field: string) =>
      Number(new RegExp(`^${field}:\\s*(\\d+)$`, 'm').exec(fdinfo)?.[1] ?? Number.NaN);
    const [said, entries] = [numberOf('memlock'), numberOf('max_entries')];
    if (Number.isNaN(said)) continue;
    const isRingLeftOut = numberOf('map_type') === RING && said < entries;
    const { bytes, isAll } = taken ?? { bytes: 0, isAll: true };
    taken = { bytes: bytes + (isRingLeftOut ? entries : said), isAll: isAll && !isRingLeftOut };
  }
  return taken;
}

export function memoryOfOwnMaps(): MapsTaken | undefined {
  const fdinfos: string[] = [];
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      if (!readlinkSync(`/proc/self/fd/${fd}`).endsWith('bpf-map')) continue;
      fdinfos.push(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'));
    } catch {
      // The one that the folder was read by.
    }
  }
  return memoryOfMaps(fdinfos);
}
