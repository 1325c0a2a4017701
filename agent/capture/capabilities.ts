/** Checks the capabilities of this process: capabilities(7). */
import { readFileSync } from 'node:fs';

/** Bit numbers of the capabilities that the agent uses: include/uapi/linux/capability.h. */
const BITS = {
  CAP_DAC_READ_SEARCH: 2n,
  CAP_SYS_PTRACE: 19n,
  CAP_SYS_ADMIN: 21n,
  CAP_SYS_RESOURCE: 24n,
  CAP_PERFMON: 38n,
  CAP_BPF: 39n,
  CAP_CHECKPOINT_RESTORE: 40n,
} as const;

export type Capability = keyof typeof BITS;

/** Capabilities needed to load and attach the BPF programs. */
export const CAPTURE_CAPABILITIES: readonly Capability[] = ['CAP_BPF', 'CAP_PERFMON'];

/** Capabilities that CAP_SYS_ADMIN includes: they were split from it in Linux 5.8 and 5.9. */
const OF_SYS_ADMIN: readonly Capability[] = ['CAP_BPF', 'CAP_PERFMON', 'CAP_CHECKPOINT_RESTORE'];

/** Returns the wanted capabilities that this process lacks. */
export function findMissingCapabilities(
  wanted: readonly Capability[],
  status = readFileSync('/proc/self/status', 'utf8'),
): Capability[] {
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`);
  const has = (capability: Capability) => (effective & (1n << BITS[capability])) !== 0n;
  return wanted.filter((each) => !has(each) && !(OF_SYS_ADMIN.includes(each) && has('CAP_SYS_ADMIN')));
}
