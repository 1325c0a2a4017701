/** Stops a session that this page plays where its caller's wait ends: data that is written back later is its own step. */
import type { Session } from '../feed/answers.ts';
import { ownEndOf } from './session_times.ts';

export interface OwnEndStop {
  /** Takes that this page lets the session play: a session that another client plays is not stopped. */
  arm(): void;
  /** Takes a state of the session and its position. */
  watch(session: Session, positionNs: number): void;
  /** Takes that the clock has come to a position by playing. */
  reach(positionNs: number): void;
  close(): void;
}

/** `stop` is called at most once after each `arm`. */
export function createOwnEndStop(stop: () => void): OwnEndStop {
  let isArmed = false;
  /** Null while the session does not play towards the end. */
  let endNs: number | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function reach(positionNs: number): void {
    if (!isArmed || endNs === null || positionNs < endNs) return;
    isArmed = false;
    stop();
  }

  return {
    arm() {
      isArmed = true;
    },
    watch(session, positionNs) {
      clearTimeout(timer);
      endNs = session.state === 'playing' && !session.loop ? ownEndOf(session) : null;
      // A session that is past the end without having played up to it was moved there.
      if (session.state !== 'playing' || (endNs !== null && positionNs >= endNs)) isArmed = false;
      if (!isArmed || endNs === null) return;
      timer = setTimeout(reach, (endNs - positionNs) / 1e6 / session.speed_factor, endNs);
    },
    reach,
    close: () => clearTimeout(timer),
  };
}
