/** Finds and removes folders of killed processes. The name of such a folder ends with the process id of its process. */
import { existsSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the folder name of this process. */
export const nameOfThisProcess = (prefix: string): string => `${prefix}${process.pid}`;

/**
 * Returns the folders in `place` with this prefix that no running process uses. A folder with this process's id comes
 * from an earlier process with the same id.
 */
export function listAbandoned(place: string, prefix: string): string[] {
  const names = existsSync(place) ? readdirSync(place) : [];
  const isAbandoned = (name: string) => {
    const pid = name.startsWith(prefix) ? name.slice(prefix.length) : '';
    return /^\d+$/.test(pid) && (!existsSync(`/proc/${pid}`) || Number(pid) === process.pid);
  };
  const paths = names.filter(isAbandoned).map((name) => join(place, name));
  // In a folder that all users may write to, a folder with such a name may belong to another user.
  return paths.filter((path) => lstatSync(path, { throwIfNoEntry: false })?.uid === process.getuid!());
}

export function removeAbandoned(place: string, prefix: string): void {
  for (const path of listAbandoned(place, prefix)) rmSync(path, { recursive: true, force: true });
}
