/** Repeats work that a server or the position's disk refused, until it succeeds or the patience ends. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ServerError } from '../clickhouse/connection/server_error.ts';
import { PositionError } from './position.ts';
import type { ShipProgress, Trouble } from './progress.ts';

export interface RetryPatience {
  /** Waits between tries, in milliseconds: each wait is twice the previous wait, from `firstMs` up to `longestMs`. */
  firstMs: number;
  longestMs: number;
  /** The first and the longest wait while an operator must act. */
  blockedFirstMs: number;
  blockedMs: number;
  /** Time after which a failure is thrown; finite for a command that must end. */
  givesUpMs: number;
}

export const SERVICE_PATIENCE: RetryPatience = {
  firstMs: 100,
  longestMs: 30_000,
  blockedFirstMs: 3_000,
  blockedMs: 300_000,
  givesUpMs: Number.POSITIVE_INFINITY,
};

/**
 * The patience of a command at a terminal. It retries after failures that pass soon, and reports at once the failures
 * that an operator must fix.
 */
export const COMMAND_PATIENCE: RetryPatience = {
  ...SERVICE_PATIENCE,
  longestMs: 5_000,
  blockedMs: 0,
  givesUpMs: 60_000,
};

export interface Persisting {
  patience: RetryPatience;
  progress: ShipProgress;
  log: Logger;
  signal: AbortSignal;
}

/**
 * Runs `work` until it succeeds. At once, rethrows an error that is neither a ServerError nor a PositionError; rethrows
 * any error once the patience ends. Throws the signal's reason when the signal aborts.
 */
export async function persist<Result>(
  { patience, progress, log, signal }: Persisting,
  work: () => Promise<Result>,
): Promise<Result> {
  const sinceMs = performance.now();
  let [failures, refusals] = [0, 0];
  for (;;) {
    try {
      const result = await work();
      if (progress.trouble) log.info('shipping goes on');
      progress.trouble = undefined;
      return result;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ServerError || error instanceof PositionError)) throw error;
      const isBlocked = error.meaning === 'blocked';
      const passedMs = performance.now() - sinceMs;
      if (passedMs >= patience.givesUpMs || (isBlocked && patience.blockedMs === 0)) throw error;
      note(progress, log, error);
      const waitMs = isBlocked
        ? Math.min(patience.blockedMs, patience.blockedFirstMs * 2 ** refusals++)
        : Math.min(patience.longestMs, patience.firstMs * 2 ** failures++);
      // The wait is random, so that many nodes that lost one server do not reconnect at the same moment.
      await sleep(waitMs * (0.5 + Math.random() / 2), undefined, { signal });
    }
  }
}

function note(progress: ShipProgress, log: Logger, { code, meaning, message }: Trouble): void {
  const key = String(code);
  progress.retries.set(key, (progress.retries.get(key) ?? 0) + 1);
  if (progress.trouble?.code !== code) {
    const what = meaning === 'blocked' ? 'an operator must act; shipping waits' : 'shipping waits';
    log[meaning === 'blocked' ? 'error' : 'warn']({ code }, `${message}: ${what}, and events stay in the recording`);
  }
  progress.trouble = { code, meaning, message };
}
