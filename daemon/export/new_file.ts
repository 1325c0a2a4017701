/**
 * Creates files that become visible only when they are complete. A file is written under a hidden name in the target's
 * folder and then renamed. The hidden name contains the writer's process id, to distinguish files of killed processes
 * from files that are being written.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { ExportError, runWithWriteErrors } from './errors.ts';

interface HiddenFile {
  /** Path of the hidden file, which is empty at first and used by no other process. */
  readonly path: string;
  /**
   * Syncs the file and renames it to `target`, which must be in the same folder. After that, the file survives a crash.
   */
  show(target: string, options: { force: boolean }): void;
  /** Removes the file; does nothing after `show`. */
  discard(): void;
}

/** Suffixes of files that SQLite may leave next to a database that was not closed. */
const COMPANIONS = ['-journal', '-wal', '-shm'];

/** Error codes of file systems that do not support hard links. */
const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

const HIDDEN_NAME = /^\.kreplay-(\d+)-/;

function buildHiddenName(rest: string): string {
  return `.kreplay-${process.pid}-${rest}`;
}

/** Creates an empty hidden file in `folder`. Error messages refer to it as `name`. */
export function createHiddenFile(folder: string, name: string): HiddenFile {
  removeAbandoned(folder);
  const path = join(folder, buildHiddenName(`${randomBytes(6).toString('hex')}.tmp`));
  runWithWriteErrors(name, () => closeSync(openSync(path, 'wx')));
  return {
    path,
    show(target, { force }) {
      runWithWriteErrors(target, () => {
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

/** Creates an empty folder with a hidden name. */
export function createHiddenFolder(folder: string): string {
  return mkdtempSync(join(folder, buildHiddenName('')));
}

/** Removes hidden files of killed processes of this user from the folder. Ignores errors. */
export function removeAbandoned(folder: string): void {
  try {
    for (const name of readdirSync(folder)) {
      const pid = HIDDEN_NAME.exec(name)?.[1];
      if (pid === undefined || isAlive(Number(pid))) continue;
      const path = join(folder, name);
      // In a folder that all users may write to, anyone could have chosen this name, so the owner is checked.
      if (lstatSync(path).uid === process.getuid!()) rmSync(path, { recursive: true, force: true });
    }
  } catch {
    // The folder is missing or belongs to another user; the later write will report the error.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Throws an error if the target exists. With `force`, an existing file or symbolic link is allowed. */
export function refuseTaken(target: string, { force }: { force: boolean }): void {
  const stats = runWithWriteErrors(target, () => lstatSync(target, { throwIfNoEntry: false }));
  if (!stats) return;
  // Renaming a file to a device's path would replace the device, for example /dev/null for root.
  if (!stats.isFile() && !stats.isSymbolicLink())
    throw new ExportError(`${target} is not a file: give another --output`);
  if (!force) throw createTakenError(target);
}

/** Renames a file with link(), because rename() would replace an existing target. */
function renameUnlessTaken(path: string, target: string): void {
  try {
    linkSync(path, target);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') throw createTakenError(target);
    if (!NO_LINKS.includes(code)) throw error;
    refuseTaken(target, { force: false });
    renameSync(path, target);
    return;
  }
  unlinkSync(path);
}

function createTakenError(target: string): ExportError {
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
