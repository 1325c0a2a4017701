/** Reads the events to come from the daemon, and again when the time line changes. */
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../client/command_error.ts';
import type { Player } from './player_state.ts';
import type { RemoteSession } from './remote_session.ts';
import { readAhead } from './time_line.ts';

/** A held key changes the time line again and again, so it is read only once that stops. */
const REST_MS = 100;

export interface UpcomingEvents {
  /** Replaces a read that is in progress. */
  read(): void;
  readAgain(): void;
}

/** Reads until `signal` aborts. Earlier marks stay until they are replaced. */
export function newUpcomingEvents(
  { state }: Player,
  { url }: Pick<RemoteSession, 'url'>,
  { signal: ending, onFailure }: { signal: AbortSignal; onFailure: (error: unknown) => void },
): UpcomingEvents {
  let reading = new AbortController();

  async function readBehind(waitMs: number): Promise<void> {
    reading.abort();
    reading = new AbortController();
    const signal = AbortSignal.any([ending, reading.signal]);
    try {
      await delay(waitMs, undefined, { signal });
      await readAhead(url, state.session, state.threads, signal, (mark, index) => {
        state.ahead[index] = mark;
      });
    } catch (error) {
      if (signal.aborted) return;
      // The replay continues without them.
      if (error instanceof CommandError) state.message = error.message;
      else onFailure(error);
    }
  }

  return {
    read: () => void readBehind(0),
    readAgain: () => void readBehind(REST_MS),
  };
}
