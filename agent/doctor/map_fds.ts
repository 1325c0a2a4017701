/** Reads how much memory this process's BPF maps take, as bpf_map_show_fdinfo() reports it. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Kernel memory taken by maps. */
export interface MapsTaken {
  bytes: number;
  /** Whether `bytes` is everything; false if the kernel does not count all memory of the maps. */
  isAll: boolean;
}

/** BPF_MAP_TYPE_RINGBUF in include/uapi/linux/bpf.h. */
const RING = 27;

/**
 * Adds up the maps' memory; returns undefined if the kernel reports none. Kernels before 6.4 count only keys and
 * values, which a ring does not have; later kernels count everything that is allocated.
 */
export function sumMapMemory(fdinfos: readonly string[]): MapsTaken | undefined {
  let taken: MapsTaken | undefined;
  for (const fdinfo of fdinfos) {
    const parseField = (field: string) =>
      Number(new RegExp(`^${field}:\\s*(\\d+)$`, 'm').exec(fdinfo)?.[1] ?? Number.NaN);
    const said = parseField('memlock');
    const entries = parseField('max_entries');
    if (Number.isNaN(said)) continue;
    const isRingLeftOut = parseField('map_type') === RING && said < entries;
    const { bytes, isAll } = taken ?? { bytes: 0, isAll: true };
    taken = { bytes: bytes + (isRingLeftOut ? entries : said), isAll: isAll && !isRingLeftOut };
  }
  return taken;
}

export function readOwnMapMemory(): MapsTaken | undefined {
  const fdinfos: string[] = [];
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      if (!readlinkSync(`/proc/self/fd/${fd}`).endsWith('bpf-map')) continue;
      fdinfos.push(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'));
    } catch {
      // The descriptor with which the folder was read is already closed.
    }
  }
  return sumMapMemory(fdinfos);
}
