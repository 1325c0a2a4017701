/** Checks whether the maps fit into the kernel memory that this process may have. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CgroupSource, createCgroups } from '../attribution/cgroups.ts';
import { missingCapabilities } from '../capture/capabilities.ts';
import { formatBytes } from '../output/amounts.ts';
import type { Check } from './check.ts';
import type { MapsTaken } from './map_fds.ts';

export interface MapMemory {
  /** Undefined if it is unknown. */
  maps: MapsTaken | undefined;
  /** Whether the maps are charged to the cgroup, as since 5.11; otherwise RLIMIT_MEMLOCK limits them. */
  isCharged: boolean;
  /** Undefined if there is no limit. */
  limitBytes: number | undefined;
  mayRaiseLimit: boolean;
}

/** Memory that an agent takes in addition to its maps. */
const AGENT_BYTES = 128 << 20;

export function mapMemory({ maps, isCharged, limitBytes, mayRaiseLimit }: MapMemory): Check {
  const name = 'map memory';
  if (maps === undefined) return { name, state: 'unknown', text: 'the programs are not loaded' };
  const { bytes: mapBytes, isAll } = maps;
  const facts = { map_bytes: mapBytes, ...(limitBytes !== undefined && { limit_bytes: limitBytes }) };
  const text = `the maps take ${isAll ? '' : 'at least '}${formatBytes(mapBytes)} of kernel memory`;
  if (isCharged) {
    const limit = limitBytes === undefined ? 'which has no limit' : `whose limit is ${formatBytes(limitBytes)}`;
    const fits = limitBytes === undefined || mapBytes + AGENT_BYTES <= limitBytes;
    const charged = `${text}, charged to the cgroup of the agent, ${limit}`;
    if (fits) return { name, state: 'ok', text: charged, facts };
    const wanted = formatBytes(mapBytes + AGENT_BYTES);
    return {
      name,
      state: 'warning',
      text: charged,
      advice: `raise it to ${wanted}, or give a smaller --ring-size`,
      facts,
    };
  }
  if (limitBytes === undefined || mayRaiseLimit) return { name, state: 'ok', text, facts };
  const locked = `${text}, and RLIMIT_MEMLOCK is ${formatBytes(limitBytes)}`;
  if (mapBytes <= limitBytes) return { name, state: 'ok', text: locked, facts };
  return { name, state: 'failed', text: locked, advice: 'set LimitMEMLOCK=infinity, or ulimit -l unlimited', facts };
}

export function memoryLimit(
  isCharged: boolean,
  cgroups: CgroupSource,
): Pick<MapMemory, 'limitBytes' | 'mayRaiseLimit'> {
  if (isCharged) return { limitBytes: cgroupLimit(cgroups), mayRaiseLimit: false };
  const soft = /^Max locked memory\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  return {
    limitBytes: soft === undefined || soft === 'unlimited' ? undefined : Number(soft),
    mayRaiseLimit: missingCapabilities(['CAP_SYS_RESOURCE']).length === 0,
  };
}

/**
 * The limit is the smallest of the cgroup's own and those above it. Where there is none, v1 writes a number that no
 * machine has.
 */
const NO_LIMIT_FROM = 2 ** 60;

function cgroupLimit(cgroups: CgroupSource): number | undefined {
  const file = cgroups.hierarchy === 'v2' ? 'memory.max' : 'memory.limit_in_bytes';
  const parts = (createCgroups(cgroups).pathOfProcess(process.pid) ?? '/').split('/').filter((part) => part !== '');
  const limits = [0, ...parts.map((_, i) => i + 1)].map((depth) =>
    numberIn(join(cgroups.root, ...parts.slice(0, depth), file)),
  );
  const smallest = Math.min(...limits);
  return smallest < NO_LIMIT_FROM ? smallest : undefined;
}

function numberIn(path: string): number {
  try {
    const value = Number(readFileSync(path, 'utf8'));
    return Number.isNaN(value) ? Number.POSITIVE_INFINITY : value; // The limit is `max`.
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
