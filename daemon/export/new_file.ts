/**
 * Creates files that appear either complete or not at all: a file is written under a hidden name in the same folder,
 * and then renamed. The name contains the writer's process id, so that files of a killed process can be distinguished
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
  /** Path to write to; at first an empty file that no other process uses. */
  readonly path: string;
  /** Gives the file its name in the same folder; afterwards, the file survives a crash. */
  show(target: string, options: { force: boolean }): void;
  /** Removes the file; does nothing after `show`. */
  discard(): void;
}

/** Suffixes of files that SQLite may leave beside a database that was not closed. */
const COMPANIONS = ['-journal', '-wal', '-shm'];

/** Error codes of file systems that do not support hard links. */
const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

const HIDDEN_NAME = /^\.kreplay-(\d+)-/;

function buildHiddenName(rest: string): string {
  return `.kreplay-${process.pid}-${rest}`;
}

/** Error messages refer to the file as `name`. */
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

/** Makes an empty folder with a hidden name. */
export function createHiddenFolder(folder: string): string {
  return mkdtempSync(join(folder, buildHiddenName('')));
}

/** Removes files that killed processes of this user have left in the folder. Failures are ignored. */
export function removeAbandoned(folder: string): void {
  try {
    for (const name of readdirSync(folder)) {
      const pid = HIDDEN_NAME.exec(name)?.[1];
      if (pid === undefined || isAlive(Number(pid))) continue;
      const path = join(folder, name);
      // The name proves nothing in a folder that other users may write to, so the owner is checked.
      if (lstatSync(path).uid === process.getuid!()) rmSync(path, { recursive: true, force: true });
    }
  } catch {
    // The folder is missing or belongs to another user. Writing to it will report the error.
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

/** Refuses a target that exists, unless the target is a file that may be replaced. */
export function refuseTaken(target: string, { force }: { force: boolean }): void {
  const stats = runWithWriteErrors(target, () => lstatSync(target, { throwIfNoEntry: false }));
  if (!stats) return;
  // Renaming a file over a device would remove the device, which must not happen when root uses `--output /dev/null`.
  if (!stats.isFile() && !stats.isSymbolicLink())
    throw new ExportError(`${target} is not a file: give another --output`);
  if (!force) throw createTakenError(target);
}

/** rename() replaces an existing target; link() does not. */
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
