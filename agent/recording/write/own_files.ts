/** Whether a recording's files still have their names: others may remove, replace or move what is open here. */
import { constants, copyFileSync, readdirSync, readlinkSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface OwnFiles {
  /** Whether all that was opened is still where it was. */
  areThere(): boolean;
}

/** To be called when all of them are open: while they are, no other file can have their inode numbers. */
export function ownFiles(path: string): OwnFiles {
  const places = [path, `${path}-wal`, `${path}-shm`, join(dirname(path), 'recording.lock')];
  const files = places.map((place) => ({ place, identity: identityOf(place) }));
  return {
    areThere: () => files.every(({ place, identity }) => identity === undefined || identityOf(place) === identity),
  };
}

/** Of the file that has this name now. */
export function identityOf(place: string): string | undefined {
  const stats = statSync(place, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}

/** Where the open file with this identity is now; undefined when it has no name any more. */
export function placeOf(identity: string): string | undefined {
  for (const fd of readdirSync('/proc/self/fd')) {
    const link = `/proc/self/fd/${fd}`;
    try {
      const stats = statSync(link, { bigint: true });
      if (`${stats.dev}:${stats.ino}` === identity) return stats.nlink === 0n ? undefined : readlinkSync(link);
    } catch {
      // The one that listed the folder is closed already.
    }
  }
  return undefined;
}

/**
 * For a file that was overwritten in place: what it has now gets a file of its own and no log, so that a connection which
 * is still open to the old one writes nothing into it.
 */
export function makeOwnFile(path: string): void {
  const copy = `${path}.overwritten`;
  copyFileSync(path, copy, constants.COPYFILE_FICLONE);
  renameSync(copy, path);
  for (const log of ['-wal', '-shm']) rmSync(`${path}${log}`, { force: true });
}
