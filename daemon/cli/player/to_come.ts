/** What is to come, read from the daemon, and again when it is another. */
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../client/command_error.ts';
import type { Player } from './player_state.ts';
import type { RemoteSession } from './remote_session.ts';
import { readAhead } from './time_line.ts';

/** A key that is held down changes it again and again: it is read when that rests. */
const REST_MS = 100;

export interface ToCome {
  /** In place of what is still being read. */
  read(): void;
  readAgain(): void;
}

/** Until `signal` ends it. What was read before stays until there is something to put in its place. */
export function newToCome(
  { state }: Player,
  { url }: Pick<RemoteSession, 'url'>,
  { signal: ending, onFailure }: { signal: AbortSignal; onFailure: (error: unknown) => void },
): ToCome {
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
      // The replay goes on without.
      if (error instanceof CommandError) state.message = error.message;
      else onFailure(error);
    }
  }

  return {
    read: () => void readBehind(0),
    readAgain: () => void readBehind(REST_MS),
  };
}
