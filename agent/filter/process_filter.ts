/** Decides by service and cgroup whether a process's events are recorded. */
import type { FilterSettings, List } from './settings.ts';

export interface ProcessFacts {
  service: string;
  /** Undefined if it is unknown. */
  cgroupPath: string | undefined;
}

export function wantsProcess({ services, cgroups }: FilterSettings, { service, cgroupPath }: ProcessFacts): boolean {
  if (!passes(services, (name) => name === service)) return false;
  // A cgroup that is not known may be a wanted one.
  return cgroupPath === undefined || passes(cgroups, (path) => isInside(cgroupPath, path));
}

export function wantsService({ services }: FilterSettings, service: string): boolean {
  return passes(services, (name) => name === service);
}

/** Whether any process can be rejected: otherwise none needs to be checked. */
export function asksForProcesses({ services, cgroups }: FilterSettings): boolean {
  return [services, cgroups].some(({ only, except }) => only.size > 0 || except.size > 0);
}

function passes({ only, except }: List, matches: (item: string) => boolean): boolean {
  return ![...except].some(matches) && (only.size === 0 || [...only].some(matches));
}

/** Whether `path` is the cgroup or below it. */
function isInside(path: string, cgroup: string): boolean {
  const folder = cgroup.replace(/\/*$/, '/');
  return `${path.replace(/\/*$/, '/')}`.startsWith(folder);
}
