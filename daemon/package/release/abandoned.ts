/** Folders of processes that were killed: the name of each folder ends with the number of its process. */
import { existsSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** The folder with this name is this process's. */
export const nameOfThisProcess = (prefix: string): string => `${prefix}${process.pid}`;

/** Returns the folders with this prefix in `place` whose process has ended, or had this process's number. */
export function listAbandoned(place: string, prefix: string): string[] {
  const names = existsSync(place) ? readdirSync(place) : [];
  const isAbandoned = (name: string) => {
    const pid = name.startsWith(prefix) ? name.slice(prefix.length) : '';
    return /^\d+$/.test(pid) && (!existsSync(`/proc/${pid}`) || Number(pid) === process.pid);
  };
  const paths = names.filter(isAbandoned).map((name) => join(place, name));
  // Where all users may write, another user's folder may have such a name.
  return paths.filter((path) => lstatSync(path, { throwIfNoEntry: false })?.uid === process.getuid!());
}

export function removeAbandoned(place: string, prefix: string): void {
  for (const path of listAbandoned(place, prefix)) rmSync(path, { recursive: true, force: true });
}
