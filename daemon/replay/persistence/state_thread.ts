/**
 * Accesses the state file in a thread of its own, so that a hanging disk or a WAL checkpoint never delays a session
 * that is playing.
 */
import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { decodeStoredSession, type KeptRow } from './kept_session.ts';
import { createDamagedError, type StateChanges, StateFileError, type StoredSession } from './state_file.ts';

export type ToState = { kind: 'write'; changes: StateChanges } | { kind: 'close' };

/** Answers come in the order of the requests. */
export type FromState =
  | { kind: 'opened'; rows: readonly StoredSession[] }
  | { kind: 'refused'; message: string }
  | { kind: 'written' }
  | { kind: 'failed'; message: string };

export interface KeptState {
  /** The rows that the file had when it was opened, oldest first. */
  readonly rows: readonly KeptRow[];
  /** Writes all changes; rejects if that fails, and then no change is written. */
  write(changes: StateChanges): Promise<void>;
  close(): Promise<void>;
}

/** Opens the state file; rejects with a StateFileError with advice for the user. */
export async function openState(path: string): Promise<KeptState> {
  // The compiled file has another extension.
  const file = new URL(`./state_worker${extname(import.meta.filename)}`, import.meta.url);
  const worker = new Worker(file, { workerData: path });
  const [opened] = (await once(worker, 'message')) as [FromState];
  if (opened.kind !== 'opened')
    throw new StateFileError(opened.kind === 'refused' ? opened.message : `${path} cannot be used`);

  const asked: PromiseWithResolvers<void>[] = [];
  let ended: Error | undefined;
  // The promise of once() would reject on `error` before it is awaited, and an unhandled rejection ends the daemon.
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  function end(error: Error): void {
    ended ??= error;
    for (const { reject } of asked.splice(0)) reject(error);
  }
  worker.on('message', (message: FromState) => {
    const waiting = asked.shift();
    if (message.kind === 'failed') waiting?.reject(new Error(message.message));
    else waiting?.resolve();
  });
  worker.on('error', (error) => end(error as Error));
  worker.on('exit', () => end(new Error(`${path} is closed`)));

  const state: Omit<KeptState, 'rows'> = {
    async write(changes) {
      if (ended) throw ended;
      const answer = Promise.withResolvers<void>();
      asked.push(answer);
      worker.postMessage({ kind: 'write', changes } satisfies ToState);
      await answer.promise;
    },
    async close() {
      if (!ended) worker.postMessage({ kind: 'close' } satisfies ToState);
      await exited;
    },
  };
  try {
    return { ...state, rows: opened.rows.map((row) => readRow(row, path)) };
  } catch (error) {
    await state.close();
    throw error;
  }
}

function readRow(row: StoredSession, path: string): KeptRow {
  try {
    return decodeStoredSession(row);
  } catch {
    throw createDamagedError(path, `session ${row.sessionId} cannot be read`);
  }
}
