/** Bios that wait for the issue of their request, as the kernel side remembers them: `bio_owners` of bpf/bio.bpf.h. */
import type { BpfMap } from 'libbpf-ts';

/** A disk that answers nothing for so long is taken out of use: the kernel gives a request 30 s by default. */
const WAIT_MAX_NS = 600e9;

/**
 * Forgets those that were queued long ago, to make room: the kernel has skipped the programs that would have done so.
 *
 * @param nowNs CLOCK_BOOTTIME
 * @returns how many
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
