/**
 * Checks whether a recording's open files still have their paths: other processes may remove, replace or move the
 * files.
 */
import { constants, copyFileSync, readdirSync, readlinkSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface OwnFiles {
  /** Returns whether all files that were opened still have their paths. */
  areThere(): boolean;
}

/**
 * Remembers the identities of a recording's files. All files must be open, so that no other file can get their inode
 * numbers.
 */
export function ownFiles(path: string): OwnFiles {
  const places = [path, `${path}-wal`, `${path}-shm`, join(dirname(path), 'recording.lock')];
  const files = places.map((place) => ({ place, identity: readFileIdentity(place) }));
  return {
    areThere: () =>
      files.every(({ place, identity }) => identity === undefined || readFileIdentity(place) === identity),
  };
}

/** Returns the identity (device and inode) of the file at this path; undefined if there is no file. */
export function readFileIdentity(place: string): string | undefined {
  const stats = statSync(place, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}

/** Returns the current path of the open file with this identity; undefined if the file has no path any more. */
export function findOpenFilePath(identity: string): string | undefined {
  for (const fd of readdirSync('/proc/self/fd')) {
    const link = `/proc/self/fd/${fd}`;
    try {
      const stats = statSync(link, { bigint: true });
      if (`${stats.dev}:${stats.ino}` === identity) return stats.nlink === 0n ? undefined : readlinkSync(link);
    } catch {
      // `readdirSync` also lists its own descriptor, which is closed already.
    }
  }
  return undefined;
}

/**
 * Copies the current content of an overwritten file to a new file at the same path, without a log. A connection that
 * still has the old file open then writes nothing into the new file.
 */
export function makeOwnFile(path: string): void {
  const copy = `${path}.overwritten`;
  copyFileSync(path, copy, constants.COPYFILE_FICLONE);
  renameSync(copy, path);
  for (const log of ['-wal', '-shm']) rmSync(`${path}${log}`, { force: true });
}
