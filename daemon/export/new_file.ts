/** A file that appears whole or not at all: written under a hidden name beside its place, then renamed. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, lstatSync, openSync, renameSync, rmSync, unlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ExportError, withWriteErrors } from './errors.ts';

export interface HiddenFile {
  /** Where to write: an empty file that nobody else uses. */
  readonly path: string;
  /** Gives it its name in the same folder, safe from a crash. */
  show(target: string, options: { force: boolean }): void;
  /** Removes what was written; after `show` it does nothing. */
  discard(): void;
}

/** What SQLite may leave beside a database that was not closed. */
const COMPANIONS = ['-journal', '-wal', '-shm'];

/** Filesystems without hard links. */
const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

/** `name`: what errors are to be about. */
export function newHiddenFile(folder: string, name: string): HiddenFile {
  const path = join(folder, `.kreplay-${randomBytes(6).toString('hex')}.tmp`);
  withWriteErrors(name, () => closeSync(openSync(path, 'wx')));
  return {
    path,
    show(target, { force }) {
      withWriteErrors(target, () => {
        sync(path);
        if (force) renameSync(path, target);
        else renameUnlessTaken(path, target);
        sync(dirname(target));
      });
    },
    discard() {
      for (const file of [path, ...COMPANIONS.map((end) => path + end)]) rmSync(file, { force: true });
    },
  };
}

/** Refuses a target that is there, unless it is a file that may be replaced. */
export function refuseTaken(target: string, { force }: { force: boolean }): void {
  const stats = withWriteErrors(target, () => lstatSync(target, { throwIfNoEntry: false }));
  if (!stats) return;
  // Renaming over a device would remove it: as root, `--output /dev/null` must not.
  if (!stats.isFile() && !stats.isSymbolicLink()) throw new ExportError(`${target} is no file: give another --output`);
  if (!force) throw taken(target);
}

/** rename() replaces what is there; link() does not. */
function renameUnlessTaken(path: string, target: string): void {
  try {
    linkSync(path, target);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw taken(target);
    if (!NO_LINKS.includes(code)) throw error;
    refuseTaken(target, { force: false });
    renameSync(path, target);
    return;
  }
  unlinkSync(path);
}

function taken(target: string): ExportError {
  return new ExportError(`${target} exists: give another --output, or --force to replace it`);
}

function sync(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
