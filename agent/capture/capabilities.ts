/** What this process may do: capabilities(7). */
import { readFileSync } from 'node:fs';

/** Bits, of include/uapi/linux/capability.h; those that the agent has a use for. */
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

/** To load and attach the programs. */
export const CAPTURE_CAPABILITIES: readonly Capability[] = ['CAP_BPF', 'CAP_PERFMON'];

/** It was split, and still does for what was taken out of it. */
const OF_SYS_ADMIN: readonly Capability[] = ['CAP_BPF', 'CAP_PERFMON', 'CAP_CHECKPOINT_RESTORE'];

/** Those of `wanted` that are not in effect. */
export function missingCapabilities(
  wanted: readonly Capability[],
  status = readFileSync('/proc/self/status', 'utf8'),
): Capability[] {
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`);
  const has = (capability: Capability) => (effective & (1n << BITS[capability])) !== 0n;
  return wanted.filter((each) => !has(each) && !(OF_SYS_ADMIN.includes(each) && has('CAP_SYS_ADMIN')));
}
