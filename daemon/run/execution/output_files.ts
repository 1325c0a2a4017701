/**
 * Files that a run writes. A new file is created under a hidden name before the command starts, so that a path that is
 * not writable is reported early. An existing device or pipe is opened only when it is written.
 */
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

/** Opens a hidden file; `write` gives it its name when its content is complete. */
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

/** Opens an existing target such as /dev/stdout or a named pipe, which a new file must not replace. */
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
