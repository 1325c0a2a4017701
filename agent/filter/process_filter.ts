/** Decides by service and cgroup whether a process's events are recorded, and which data owners a request may name. */
import type { FilterSettings, List } from './settings.ts';

export interface FilteredProcess {
  service: string;
  /** Path of the cgroup; undefined if it is unknown. */
  cgroupPath: string | undefined;
}

export function wantsProcess({ services, cgroups }: FilterSettings, { service, cgroupPath }: FilteredProcess): boolean {
  if (!passes(services, (name) => name === service)) return false;
  // An unknown cgroup may be a wanted cgroup, so the process is accepted.
  return cgroupPath === undefined || passes(cgroups, (path) => isInside(cgroupPath, path));
}

export function wantsService({ services }: FilterSettings, service: string): boolean {
  return passes(services, (name) => name === service);
}

/**
 * Whether the lists of pids and commands let a request name the process as a data owner. The lists are about threads,
 * so the process is compared by its pid and by the command name of its program.
 */
export function listsProcess({ pids, comms }: FilterSettings, pid: number, executable: string): boolean {
  if (!passes(pids, (item) => item === String(pid))) return false;
  const command = toCommandName(executable);
  return command === '' || passes(comms, (item) => toCommandName(item) === command);
}

const COMMAND_BYTES_MAX = 15;

/** Returns the kernel's name for a thread that has executed the program: the file name, cut to 15 bytes. */
function toCommandName(executable: string): string {
  const name = executable.slice(executable.lastIndexOf('/') + 1);
  return Buffer.from(name).subarray(0, COMMAND_BYTES_MAX).toString();
}

/**
 * A process that wrote part of a request's data. `isWanted`: whether the filter accepts the process's service and
 * cgroup. `isListed`: whether the filter's lists of pids and commands accept the process.
 */
export interface DataOwner {
  isWanted: boolean;
  isListed: boolean;
}

/**
 * Whether a request may name `owner` as a writer of its data, when the filter has accepted the request. `label` is the
 * service that the owner's label names; null if the label names no service, undefined if the owner has no label.
 */
export function wantsDataOwner(settings: FilterSettings, owner: DataOwner, label: string | null | undefined): boolean {
  if (!owner.isListed) return false;
  if (label) return wantsService(settings, label);
  return owner.isWanted && !(settings.onlyLabelled && label === undefined);
}

/** Whether the filter may reject processes, so that each process must be checked. */
export function asksForProcesses({ services, cgroups }: FilterSettings): boolean {
  return [services, cgroups].some(({ only, except }) => only.size > 0 || except.size > 0);
}

function passes({ only, except }: List, matches: (item: string) => boolean): boolean {
  return ![...except].some(matches) && (only.size === 0 || [...only].some(matches));
}

/** Whether the cgroup at `path` is `cgroup` or is below it. */
function isInside(path: string, cgroup: string): boolean {
  const folder = cgroup.replace(/\/*$/, '/');
  return `${path.replace(/\/*$/, '/')}`.startsWith(folder);
}
