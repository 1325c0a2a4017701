/**
 * The state file in a thread of its own: a disk that hangs, or a log that is moved into the file, never holds up what is
 * being played.
 */
import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type KeptRow, keptRow } from './kept_session.ts';
import { damaged, type StateChanges, StateFileError, type StoredSession } from './state_file.ts';

export type ToState = { kind: 'write'; changes: StateChanges } | { kind: 'close' };

/** Answers come in the order of what was asked. */
export type FromState =
  | { kind: 'opened'; rows: readonly StoredSession[] }
  | { kind: 'refused'; message: string }
  | { kind: 'written' }
  | { kind: 'failed'; message: string };

export interface KeptState {
  /** As they were found, the oldest first. */
  readonly rows: readonly KeptRow[];
  /** Rejects when nothing of it could be written. */
  write(changes: StateChanges): Promise<void>;
  close(): Promise<void>;
}

/** Rejects with a StateFileError that says what to do. */
export async function openState(path: string): Promise<KeptState> {
  // Compiled it has another name.
  const file = new URL(`./state_worker${extname(import.meta.filename)}`, import.meta.url);
  const worker = new Worker(file, { workerData: path });
  const [opened] = (await once(worker, 'message')) as [FromState];
  if (opened.kind !== 'opened')
    throw new StateFileError(opened.kind === 'refused' ? opened.message : `${path} cannot be used`);

  const asked: PromiseWithResolvers<void>[] = [];
  let ended: Error | undefined;
  // Not once(): that rejects at `error`, before anything waits for it, and an unhandled rejection ends the daemon.
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
    return keptRow(row);
  } catch {
    throw damaged(path, `session ${row.sessionId} cannot be read`);
  }
}
