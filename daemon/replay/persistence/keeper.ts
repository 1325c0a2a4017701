/**
 * Writes the changes of sessions in batches: while one batch is being written, the next batch is collected. A batch
 * whose write fails is kept and retried; meanwhile sessions continue unaffected.
 */
import type { SteadyNow } from '../clock/clock.ts';
import type { Alarm } from '../clock/scheduler.ts';
import { encodeStoredSession, type KeptRow } from './kept_session.ts';
import type { StoredPlace } from './state_file.ts';
import type { KeptState } from './state_thread.ts';

/** Interval at which the positions of playing sessions, and changes that no client waits for, are written. */
const SAVE_NS = 1_000_000_000n;

export interface Keeper {
  /** Reports that a session has changed or ended. The change is written within a second. */
  markChanged(sessionId: string): void;
  /** Starts a write; resolves when all earlier changes have been written, or when the write has failed. */
  save(): Promise<void>;
  /** Why the last batch could not be written; null if it was written. */
  readonly failure: string | null;
  close(): Promise<void>;
}

export interface KeeperOptions {
  state: Pick<KeptState, 'write' | 'close'>;
  /** Returns the current row of a session; undefined if the session has ended. */
  findKeptRow: (sessionId: string) => KeptRow | undefined;
  /** Returns the positions of all playing sessions. */
  playing: () => StoredPlace[];
  now: SteadyNow;
  alarm: (ring: () => void) => Alarm;
  /** Called with the reason when writes start to fail, and with null when they succeed again. */
  onFailure: (failure: string | null) => void;
}

export function createKeeper({ state, findKeptRow, playing, now, alarm, onFailure }: KeeperOptions): Keeper {
  let changed = new Set<string>();
  let failure: string | null = null;
  let writing: Promise<void> = Promise.resolve();
  /** The next write, which starts when `writing` is done. */
  let next: Promise<void> | undefined;
  let isTicking = false;
  let placesAreDue = false;
  let closed = false;

  const tick = alarm(() => {
    isTicking = false;
    placesAreDue = true;
    void save();
  });

  function startTicking(): void {
    if (isTicking) return;
    isTicking = true;
    tick.set(now() + SAVE_NS);
  }

  function save(): Promise<void> {
    if (closed) return writing;
    next ??= writing.then(() => {
      writing = next!;
      next = undefined;
      return write();
    });
    return next;
  }

  async function write(): Promise<void> {
    const lot = changed;
    changed = new Set();
    try {
      const rows = [...lot].map((sessionId) => ({ sessionId, row: findKeptRow(sessionId) }));
      const sessions = rows.flatMap(({ row }) => (row ? encodeStoredSession(row) : []));
      const removed = rows.flatMap(({ sessionId, row }) => (row ? [] : sessionId));
      const places = placesAreDue ? playing().filter(({ sessionId }) => !lot.has(sessionId)) : [];
      placesAreDue = false;
      if (places.length > 0) startTicking();
      if (sessions.length + removed.length + places.length === 0) return;
      await state.write({ sessions, places, removed });
      tell(null);
    } catch (error) {
      for (const sessionId of lot) changed.add(sessionId);
      startTicking();
      tell((error as Error).message);
    }
  }

  function tell(now: string | null): void {
    const isNew = (now === null) !== (failure === null);
    failure = now;
    if (isNew) onFailure(now);
  }

  return {
    markChanged(sessionId) {
      changed.add(sessionId);
      startTicking();
    },
    save,
    get failure() {
      return failure;
    },
    async close() {
      placesAreDue = true;
      const last = save();
      closed = true;
      await last;
      await state.close();
    },
  };
}
