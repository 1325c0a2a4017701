/**
 * Where a session's clock is between two frames. The daemon's is the only clock: a frame says where it was, and from
 * there the position moves at the session's speed, never beyond the next event until its frame is in.
 */
export interface Playhead {
  /** Takes what a frame says: the position at a time of this page's clock. */
  set(positionNs: number, atMs: number): void;
  /** Takes that the clock stands still at a position. */
  stop(positionNs: number): void;
  /** Takes how fast the position moves, and the place that it does not pass. */
  run(speedFactor: number, limitNs: number): void;
  /** The position at a time of this page's clock, nanoseconds from the start of the replay. */
  at(nowMs: number): number;
  readonly isRunning: boolean;
}

/** A difference below this is made up for slowly, because a jump back would look like a fault. */
const SLEW_NS_MAX = 30e6;
/** Share of a difference that is left after each frame of the screen. */
const SLEW_LEFT = 0.8;

export function createPlayhead(): Playhead {
  let [positionNs, atMs, speed, limitNs] = [0, 0, 0, Number.POSITIVE_INFINITY];
  let isRunning = false;
  /** What is shown minus what the daemon's clock says. */
  let offsetNs = 0;
  const clockAt = (nowMs: number) =>
    isRunning ? Math.min(limitNs, positionNs + Math.max(0, nowMs - atMs) * 1e6 * speed) : positionNs;
  return {
    get isRunning() {
      return isRunning;
    },
    set(newNs, newMs) {
      const shownNs = clockAt(newMs) + offsetNs;
      [positionNs, atMs] = [newNs, newMs];
      const differenceNs = shownNs - newNs;
      offsetNs =
        isRunning && Math.abs(differenceNs) <= SLEW_NS_MAX * Math.max(speed, Number.EPSILON) ? differenceNs : 0;
    },
    stop(newNs) {
      [positionNs, isRunning, offsetNs, limitNs] = [newNs, false, 0, Number.POSITIVE_INFINITY];
    },
    run(speedFactor, newLimitNs) {
      [speed, limitNs, isRunning] = [speedFactor, newLimitNs, true];
    },
    at(nowMs) {
      offsetNs *= SLEW_LEFT;
      return Math.min(limitNs, Math.max(0, clockAt(nowMs) + offsetNs));
    },
  };
}
