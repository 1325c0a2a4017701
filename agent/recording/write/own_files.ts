/** Checks whether a recording's open files still have their names: other processes may remove, replace or move them. */
import { constants, copyFileSync, readdirSync, readlinkSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface OwnFiles {
  /** Whether all files that were opened still have their paths. */
  areThere(): boolean;
}

/** Must be called when all files are open: as long as they are, no other file can have their inode numbers. */
export function ownFiles(path: string): OwnFiles {
  const places = [path, `${path}-wal`, `${path}-shm`, join(dirname(path), 'recording.lock')];
  const files = places.map((place) => ({ place, identity: readFileIdentity(place) }));
  return {
    areThere: () =>
      files.every(({ place, identity }) => identity === undefined || readFileIdentity(place) === identity),
  };
}

/** Returns the identity of the file that has this name. */
export function readFileIdentity(place: string): string | undefined {
  const stats = statSync(place, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}

/** Returns the current path of the open file with this identity; undefined when it has no name any more. */
export function findOpenFilePath(identity: string): string | undefined {
  for (const fd of readdirSync('/proc/self/fd')) {
    const link = `/proc/self/fd/${fd}`;
    try {
      const stats = statSync(link, { bigint: true });
      if (`${stats.dev}:${stats.ino}` === identity) return stats.nlink === 0n ? undefined : readlinkSync(link);
    } catch {
      // The descriptor that listed the folder is closed already.
    }
  }
  return undefined;
}

/**
 * Copies the current content of a file that was overwritten in place to a new file without a log. So a connection that
 * still has the old file open writes nothing into the new one.
 */
export function makeOwnFile(path: string): void {
  const copy = `${path}.overwritten`;
  copyFileSync(path, copy, constants.COPYFILE_FICLONE);
  renameSync(copy, path);
  for (const log of ['-wal', '-shm']) rmSync(`${path}${log}`, { force: true });
}
