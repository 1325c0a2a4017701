/** Maps the kernel's cgroup ids to paths, which show what runs in each cgroup. */
import { readdirSync, readFileSync, readlinkSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createReferenceTable } from './reference_table.ts';

/** Hierarchies in the order of `enum cgroup_hierarchy` in bpf/cgroup.bpf.h. */
export const CGROUP_HIERARCHIES = ['v2', 'v1_memory', 'v1_pids'] as const;

export type CgroupHierarchy = (typeof CGROUP_HIERARCHIES)[number];

/** Value from include/uapi/linux/magic.h. */
const CGROUP2_SUPER_MAGIC = 0x63677270;

/** Link of the initial cgroup namespace: PROC_CGROUP_INIT_INO in include/linux/proc_ns.h. */
const ROOT_CGROUP_NAMESPACE = 'cgroup:[4026531835]';

const CGROUPS_MAX = 4096;
/** Maximum number of folders that a search visits. */
const SEARCHED_MAX = 20_000;
/** Minimum interval between searches. Without it, each process of another cgroup would cause a search. */
export const SEARCH_EVERY_MS = 1000;

export interface CgroupSource {
  hierarchy: CgroupHierarchy;
  /** Mount point of the hierarchy. */
  root: string;
}

/** Chooses the most informative hierarchy: that of a v1 controller (memory or pids) if v1 is in use, otherwise v2. */
export function findCgroups(
  mountPoint = '/sys/fs/cgroup',
  own = readFileSync('/proc/self/cgroup', 'utf8'),
): CgroupSource {
  if (statfsSync(mountPoint).type === CGROUP2_SUPER_MAGIC) return { hierarchy: 'v2', root: mountPoint };
  for (const controller of ['memory', 'pids'] as const) {
    if (parseControllerPath(own, controller) !== undefined) {
      return { hierarchy: `v1_${controller}`, root: join(mountPoint, controller) };
    }
  }
  return { hierarchy: 'v2', root: join(mountPoint, 'unified') };
}

export interface Cgroups {
  /** Stores the path of a cgroup. `folders` are the components of the path as the kernel sends them, leaf first. */
  define(cgroupId: number, folders: readonly string[]): void;
  /**
   * Returns the cgroup's path inside the hierarchy, such as `/system.slice/nginx.service`; undefined if it is unknown,
   * as that of id 0 is, which the kernel gives to no cgroup.
   */
  findPath(cgroupId: number, pid: number): string | undefined;
  readProcessPath(pid: number): string | undefined;
}

export function createCgroups({ hierarchy, root }: CgroupSource): Cgroups {
  const controller = hierarchy === 'v2' ? '' : hierarchy.slice('v1_'.length);
  const paths = createReferenceTable<string>(CGROUPS_MAX);
  /** Ids that no folder has. The kernel reuses no id, so a later search would not find them either. */
  const missing = createReferenceTable<true>(CGROUPS_MAX);
  // The kernel's paths begin at the root of the hierarchy, which the agent sees only in the initial cgroup namespace.
  const isHosts = readlinkSync('/proc/self/ns/cgroup') === ROOT_CGROUP_NAMESPACE;
  let searchedMs = Number.NEGATIVE_INFINITY;

  function hasCgroupId(path: string, cgroupId: number): boolean {
    return statSync(join(root, path), { throwIfNoEntry: false })?.ino === cgroupId;
  }

  function readProcessPath(pid: number): string | undefined {
    try {
      return parseControllerPath(readFileSync(`/proc/${pid}/cgroup`, 'utf8'), controller);
    } catch {
      return undefined;
    }
  }

  /**
   * Returns the path of the cgroup if process `pid` is in it, which the inode shows; undefined if the process has moved
   * to another cgroup.
   */
  function askProcess(cgroupId: number, pid: number): string | undefined {
    const path = readProcessPath(pid);
    return path !== undefined && hasCgroupId(path, cgroupId) ? path : undefined;
  }

  /**
   * Finds the cgroup of a process that has ended, by visiting all folders. Caches the path of every folder, because the
   * next search is allowed only after SEARCH_EVERY_MS. If no folder has the id, remembers that.
   */
  function search(cgroupId: number): string | undefined {
    if (performance.now() - searchedMs < SEARCH_EVERY_MS) return undefined;
    searchedMs = performance.now();
    let found: string | undefined;
    const waiting = ['/'];
    for (let looked = 0; looked < SEARCHED_MAX && waiting.length > 0; looked++) {
      const path = waiting.pop()!;
      const inode = statSync(join(root, path), { throwIfNoEntry: false })?.ino;
      if (inode !== undefined) paths.set(inode, path);
      if (inode === cgroupId) found = path;
      waiting.push(...listFolders(join(root, path)).map((name) => join(path, name)));
    }
    if (found === undefined && waiting.length === 0) missing.set(cgroupId, true);
    return found;
  }

  return {
    define(cgroupId, folders) {
      if (isHosts) paths.set(cgroupId, `/${folders.toReversed().join('/')}`);
    },
    readProcessPath,
    findPath(cgroupId, pid) {
      if (cgroupId === 0) return undefined;
      const known = paths.get(cgroupId);
      if (known !== undefined || missing.get(cgroupId)) return known;
      const path = askProcess(cgroupId, pid) ?? search(cgroupId);
      if (path !== undefined) paths.set(cgroupId, path);
      return path;
    },
  };
}

/**
 * Returns the process's path in the hierarchy of `controller`, from the text of /proc/PID/cgroup. The v2 hierarchy has
 * an empty controller name: cgroups(7).
 */
function parseControllerPath(lines: string, controller: string): string | undefined {
  for (const line of lines.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers?.split(',').includes(controller)) return path;
  }
  return undefined;
}

function listFolders(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}
