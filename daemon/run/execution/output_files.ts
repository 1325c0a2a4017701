/** Files that a run writes. Whether they can be written is checked before the command is started. */
import { lstatSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { toWriteError } from '../../export/errors.ts';
import { createHiddenFile } from '../../export/new_file.ts';
import { RunError, toRunError } from '../errors.ts';

export interface OutputFile {
  write(text: string): void;
  /** Does nothing after `write`. */
  discard(): void;
}

export function openOutput(path: string): OutputFile {
  return runWithRunErrors(path, () => (isRegularOrNone(path) ? openNewFile(path) : openExistingFile(path)));
}

/** Opens a new file, which appears whole or not at all. */
function openNewFile(path: string): OutputFile {
  const hidden = createHiddenFile(dirname(path), path);
  return {
    write(text) {
      runWithRunErrors(path, () => {
        writeFileSync(hidden.path, text);
        hidden.show(path, { force: true });
      });
    },
    discard: hidden.discard,
  };
}

/** Opens a target such as /dev/stdout or a named pipe, which must not be replaced by a new file. */
function openExistingFile(path: string): OutputFile {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw new RunError(`${path} is a folder: name a file`);
  return { write: (text) => runWithRunErrors(path, () => writeFileSync(path, text)), discard: () => {} };
}

function isRegularOrNone(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
}

function runWithRunErrors<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw toRunError(toWriteError(error, path));
  }
}
