/** Outputs for a stream of events: a file, or standard output, where a write waits for a slow reader. */
import { once } from 'node:events';
import { closeSync, openSync, writeSync } from 'node:fs';
import { Interrupted, runWithWriteErrors } from './errors.ts';

export interface Output {
  write(chunk: string | Buffer): Promise<void>;
  bytes(): number;
  close(): void;
}

/** Opens a file, which must exist. Error messages refer to it as `name`, the name that the user gave. */
export function openFileOutput(path: string, name: string): Output {
  const descriptor = runWithWriteErrors(name, () => openSync(path, 'r+'));
  let bytes = 0;
  return {
    async write(chunk) {
      const data = Buffer.from(chunk as string);
      // On a disk that becomes full, a write may store only part of the data; the next write then fails.
      for (let at = 0; at < data.length; ) at += runWithWriteErrors(name, () => writeSync(descriptor, data, at));
      bytes += data.length;
    },
    bytes: () => bytes,
    close: () => closeSync(descriptor),
  };
}

/** Creates an output to standard output. Aborting `signal` ends a wait for the reader. */
export function createStandardOutput(signal: AbortSignal): Output {
  let bytes = 0;
  return {
    async write(chunk) {
      bytes += Buffer.byteLength(chunk);
      if (process.stdout.write(chunk)) return;
      await once(process.stdout, 'drain', { signal }).catch((error) => {
        throw signal.aborted ? new Interrupted() : error;
      });
    },
    bytes: () => bytes,
    close() {},
  };
}
