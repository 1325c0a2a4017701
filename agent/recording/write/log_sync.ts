/**
 * Syncs a recording's write-ahead log once a second. Queries can read events as soon as they are committed, but a power
 * loss destroys events that are not on the disk yet. SQLite itself syncs the log only before a checkpoint, which may
 * never happen. The sync runs on a thread of libuv, so that no commit waits for it.
 */
import { RecordingError } from '../format/errors.ts';
import type { RecordingLog } from '../format/recording_log.ts';

const SYNC_EVERY_MS = 1000;

export interface LogSync {
  /** Notes a commit that must reach the disk. */
  noteCommit(): void;
  /**
   * Returns the CLOCK_MONOTONIC time of the first commit that may not be on the disk yet; undefined if there is none.
   */
  unsyncedSinceNs(): bigint | undefined;
  /** Starts no further syncs; resolves when the current sync has ended. The descriptor must stay open until then. */
  end(): Promise<void>;
}

export interface Timer {
  nowMs(): number;
  /** Returns a function that cancels the work. */
  schedule(ms: number, work: () => void): () => void;
}

const TIMER: Timer = {
  nowMs: () => performance.now(),
  schedule(ms, work) {
    const timeout = setTimeout(work, ms);
    return () => clearTimeout(timeout);
  },
};

export interface LogSyncOptions {
  log: Pick<RecordingLog, 'beginSync'>;
  /** Copies the log to the file and syncs both; returns whether the whole log was copied. */
  checkpoint(): boolean;
  /** Called after each sync, with the error if the sync failed. */
  onSynced(failure: RecordingError | undefined): void;
  timer?: Timer;
}

export function logSync({ log, checkpoint, onSynced, timer = TIMER }: LogSyncOptions): LogSync {
  let begunMs = Number.NEGATIVE_INFINITY;
  let callOff: (() => void) | undefined;
  /** Time of the oldest commit that waits for the sync under way. */
  let syncingSinceNs: bigint | undefined;
  /** Time of the oldest commit that waits for the next sync. */
  let waitingSinceNs: bigint | undefined;
  /**
   * The error of the last sync. The kernel reports a page that it failed to write only once, and then treats the page
   * as written, so a later successful sync does not cover that page. So after a failure, a checkpoint writes everything
   * again, to the recording's file.
   */
  let failure: RecordingError | undefined;
  let hasEnded = false;
  let notifyEnded = () => {};

  function beginLater(): void {
    if (hasEnded || callOff || syncingSinceNs !== undefined || waitingSinceNs === undefined) return;
    callOff = timer.schedule(Math.max(0, begunMs + SYNC_EVERY_MS - timer.nowMs()), begin);
  }

  function begin(): void {
    callOff = undefined;
    begunMs = timer.nowMs();
    syncingSinceNs = waitingSinceNs;
    waitingSinceNs = undefined;
    if (failure) copyAll(failure);
    else log.beginSync(settle);
  }

  function copyAll(failure: RecordingError): void {
    try {
      // A reader may block the checkpoint of a part of the log for a while.
      settle(checkpoint() ? undefined : failure);
    } catch (error) {
      if (!(error instanceof RecordingError)) throw error;
      settle(error);
    }
  }

  function settle(result: RecordingError | undefined): void {
    failure = result;
    if (failure) waitingSinceNs = syncingSinceNs;
    syncingSinceNs = undefined;
    onSynced(failure);
    beginLater();
    notifyEnded();
  }

  return {
    noteCommit() {
      waitingSinceNs ??= process.hrtime.bigint();
      beginLater();
    },
    unsyncedSinceNs: () => syncingSinceNs ?? waitingSinceNs,
    async end() {
      hasEnded = true;
      callOff?.();
      if (syncingSinceNs !== undefined) await new Promise<void>((resolve) => (notifyEnded = resolve));
    },
  };
}
