/** Bios that wait for their request to be issued, as the kernel side remembers them: bpf/bio_owner.bpf.h. */
import type { BpfMap } from 'libbpf-ts';

/** A disk that does not answer for so long is taken out of use: the kernel's default timeout of a request is 30 s. */
const WAIT_MAX_NS = 600e9;

/**
 * Forgets bios that were queued long ago, to make room: the kernel skipped the programs that would have removed them.
 *
 * @param nowNs CLOCK_BOOTTIME
 * @returns number of forgotten bios
 */
export function forgetLongGone(bioOwners: BpfMap, nowNs: number): number {
  const value = new Uint8Array(bioOwners.info.valueSize);
  const queuedNs = new BigUint64Array(value.buffer, 0, 1);
  let count = 0;
  for (const key of bioOwners.keys()) {
    if (!bioOwners.get(key, value) || Number(queuedNs[0]) > nowNs - WAIT_MAX_NS) continue;
    bioOwners.delete(key);
    count++;
  }
  return count;
}
