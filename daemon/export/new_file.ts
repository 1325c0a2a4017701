/**
 * A file that appears whole or not at all: written under a hidden name beside its place, then renamed. The name says
 * which process writes, so that what a killed one has left can be told from what is still being written.
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
import { ExportError, withWriteErrors } from './errors.ts';

interface HiddenFile {
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

const HIDDEN_NAME = /^\.kreplay-(\d+)-/;

function hiddenName(rest: string): string {
  return `.kreplay-${process.pid}-${rest}`;
}

/** `name`: what errors are to be about. */
export function newHiddenFile(folder: string, name: string): HiddenFile {
  removeAbandoned(folder);
  const path = join(folder, hiddenName(`${randomBytes(6).toString('hex')}.tmp`));
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

/** An empty folder, likewise. */
export function newHiddenFolder(folder: string): string {
  return mkdtempSync(join(folder, hiddenName('')));
}

/** Removes what killed processes of this user have left there. What is in the way of that is no failure. */
export function removeAbandoned(folder: string): void {
  try {
    for (const name of readdirSync(folder)) {
      const pid = HIDDEN_NAME.exec(name)?.[1];
      if (pid === undefined || isAlive(Number(pid))) continue;
      const path = join(folder, name);
      // In a folder that others may write to, the name proves nothing.
      if (lstatSync(path).uid === process.getuid!()) rmSync(path, { recursive: true, force: true });
    }
  } catch {
    // The folder is missing, or not ours: whoever writes to it is told.
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
