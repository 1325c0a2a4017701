/**
 * The rings for events: which CPUs share a ring, and reading all rings as if they were one.
 *
 * Producers of one ring wait for each other inside the traced calls, so only CPUs that share a last-level cache share a
 * ring. All rings together take the memory that one ring would take.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RingReader } from 'libbpf-ts';

const CPU_FOLDER = '/sys/devices/system/cpu';
/** CPUS_MAX of bpf/kreplay.bpf.h. */
const CPUS_MAX = 8192;
/** EVENT_RINGS_MAX of bpf/kreplay.bpf.h. */
export const EVENT_RINGS_MAX = 256;
/** Maximum number of CPUs in a group; a larger cache is divided among several groups. */
const GROUP_CPUS_MAX = 8;
/** Minimum size of a ring, unless --rings asks for smaller rings. Groups share a ring where the memory is less. */
const RING_BYTES_MIN = 2 << 20;
const PAGE_BYTES = 4096;

export interface RingPlan {
  count: number;
  /** Size of each ring in bytes, a power of two. */
  ringBytes: number;
  /** The ring of each CPU: `ring_of_cpu` of bpf/kreplay.bpf.h. */
  ringOfCpu: Uint8Array;
}

/**
 * Divides the CPUs among rings.
 *
 * @param groups CPUs that share a cache: the result of groupCpus()
 * @param totalBytes Memory for all rings together
 * @param count Number of rings; by default one for each group, as far as the memory suffices
 */
export function planRings(groups: readonly (readonly number[])[], totalBytes: number, count?: number): RingPlan {
  const affordable = Math.max(1, Math.floor(totalBytes / RING_BYTES_MIN));
  const rings = count ?? Math.min(groups.length, affordable, EVENT_RINGS_MAX);
  const ringBytes = Math.max(PAGE_BYTES, 2 ** Math.floor(Math.log2(totalBytes / rings)));
  const ringOfCpu = new Uint8Array(CPUS_MAX);
  // With more rings than groups, each CPU in turn gets the next ring.
  const units = rings <= groups.length ? groups : groups.flat().map((cpu) => [cpu]);
  units.forEach((cpus, i) => {
    const ring = rings <= units.length ? Math.floor((i * rings) / units.length) : i;
    for (const cpu of cpus) if (cpu < CPUS_MAX) ringOfCpu[cpu] = ring;
  });
  return { count: rings, ringBytes, ringOfCpu };
}

/**
 * Groups the CPUs of this host by last-level cache. A CPU that is off line shows no cache, and joins the group of the
 * CPU before it; such a CPU may come on line later.
 */
export function groupCpus(folder = CPU_FOLDER): number[][] {
  const groups = new Map<string, number[]>();
  let key = '';
  for (const cpu of parseCpuList(readFileSync(join(folder, 'possible'), 'utf8'))) {
    key = readLastLevelCache(join(folder, `cpu${cpu}`, 'cache')) ?? key;
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(cpu);
  }
  return [...groups.values()].flatMap(divideGroup);
}

/** Divides a large group into groups of about the same size. */
function divideGroup(cpus: readonly number[]): number[][] {
  const parts = Math.ceil(cpus.length / GROUP_CPUS_MAX);
  const size = Math.ceil(cpus.length / parts);
  return Array.from({ length: parts }, (_, i) => cpus.slice(i * size, (i + 1) * size));
}

/** Returns the list of CPUs that share the last-level cache; undefined if there is no information about caches. */
function readLastLevelCache(folder: string): string | undefined {
  if (!existsSync(folder)) return undefined;
  const caches = readdirSync(folder)
    .filter((name) => name.startsWith('index'))
    .map((name) => ({
      level: Number(readFileSync(join(folder, name, 'level'), 'utf8')),
      cpus: readFileSync(join(folder, name, 'shared_cpu_list'), 'utf8').trim(),
    }));
  return caches.toSorted((a, b) => b.level - a.level)[0]?.cpus;
}

/** Returns the CPUs of a list such as `0-3,8`. */
function parseCpuList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((range) => {
      const [first, last = first] = range.split('-').map(Number);
      return Array.from({ length: last! - first! + 1 }, (_, i) => first! + i);
    });
}

export interface EventRings {
  readonly readers: readonly RingReader[];
  /** Size of each ring in bytes. */
  readonly ringBytes: number;
  /**
   * Moves records of all rings into `buffer`, as `drain` of RingReader does. Each ring's records are in order, and each
   * call begins with another ring, so that a flood in one ring does not delay the others.
   */
  drain(buffer: Uint8Array): number;
  /** Number of bytes that wait in all rings. */
  pendingBytes(): number;
  /** Number of bytes that wait in the fullest ring. */
  fullestBytes(): number;
  /** Maximum number of bytes that waited in one ring since the last call. */
  takePeakBytes(): number;
  /** Returns a function that tells whether everything that waits in the rings now has been drained. */
  markBacklog(): () => boolean;
}

export function createEventRings(readers: readonly RingReader[]): EventRings {
  let first = 0;
  return {
    readers,
    ringBytes: readers[0]!.sizeBytes,
    drain(buffer) {
      let filled = 0;
      for (let i = 0; i < readers.length; i++) {
        filled += readers[(first + i) % readers.length]!.drain(buffer, filled);
      }
      first = (first + 1) % readers.length;
      return filled;
    },
    pendingBytes: () => readers.reduce((sum, reader) => sum + reader.pendingBytes(), 0),
    fullestBytes: () => Math.max(...readers.map((reader) => reader.pendingBytes())),
    takePeakBytes: () => Math.max(...readers.map((reader) => reader.takePeakBytes())),
    markBacklog() {
      const marks = readers.map((reader) => ({ reader, endBytes: reader.consumedBytes() + reader.pendingBytes() }));
      return () => marks.every(({ reader, endBytes }) => reader.consumedBytes() >= endBytes);
    },
  };
}
