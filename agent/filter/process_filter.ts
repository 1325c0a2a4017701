/** Decides by service and cgroup whether a process's events are recorded, and which data owners a request may name. */
import type { FilterSettings, List } from './settings.ts';

export interface FilteredProcess {
  service: string;
  /** Undefined if the path is unknown. */
  cgroupPath: string | undefined;
}

export function wantsProcess({ services, cgroups }: FilterSettings, { service, cgroupPath }: FilteredProcess): boolean {
  if (!passes(services, (name) => name === service)) return false;
  // An unknown cgroup may be one that is wanted.
  return cgroupPath === undefined || passes(cgroups, (path) => isInside(cgroupPath, path));
}

export function wantsService({ services }: FilterSettings, service: string): boolean {
  return passes(services, (name) => name === service);
}

/** Whether the lists of pids and commands, which are about threads, let a request name the process as a data owner. */
export function listsProcess({ pids, comms }: FilterSettings, pid: number, executable: string): boolean {
  if (!passes(pids, (item) => item === String(pid))) return false;
  const command = toCommandName(executable);
  return command === '' || passes(comms, (item) => toCommandName(item) === command);
}

const COMMAND_BYTES_MAX = 15;

/** Returns the name of a thread that has executed the program, cut as the kernel cuts it. */
function toCommandName(executable: string): string {
  const name = executable.slice(executable.lastIndexOf('/') + 1);
  return Buffer.from(name).subarray(0, COMMAND_BYTES_MAX).toString();
}

/**
 * A process whose data a request carries: whether the filter wants the process's service and cgroup, and whether the
 * filter's lists of pids and commands accept it.
 */
export interface DataOwner {
  isWanted: boolean;
  isListed: boolean;
}

/**
 * Whether a request that is kept because it carries wanted data may name `owner`, whose data it also carries. `label`
 * is the service that the owner's label names: null if the label names none, undefined without a label.
 */
export function wantsDataOwner(settings: FilterSettings, owner: DataOwner, label: string | null | undefined): boolean {
  if (!owner.isListed) return false;
  if (label) return wantsService(settings, label);
  return owner.isWanted && !(settings.onlyLabelled && label === undefined);
}

/** Whether the filter can reject a process; otherwise no process needs to be checked. */
export function asksForProcesses({ services, cgroups }: FilterSettings): boolean {
  return [services, cgroups].some(({ only, except }) => only.size > 0 || except.size > 0);
}

function passes({ only, except }: List, matches: (item: string) => boolean): boolean {
  return ![...except].some(matches) && (only.size === 0 || [...only].some(matches));
}

/** Whether `path` is the path of the cgroup itself or is below it. */
function isInside(path: string, cgroup: string): boolean {
  const folder = cgroup.replace(/\/*$/, '/');
  return `${path.replace(/\/*$/, '/')}`.startsWith(folder);
}
