/**
 * How late this page handles the frames of a session that plays. The fastest frame since the clock was set shows how the
 * page's clock and the daemon's belong together; a frame that comes later than that one was held up on its way or here.
 */
export interface DelayMeter {
  /** Takes that a frame says where the daemon's clock was; the delay of the frame, milliseconds. */
  take(positionNs: number, nowMs: number): number;
  /** Takes that the clock was set, or runs at another speed. */
  reset(speedFactor: number): void;
  /** The longest delay of the last second. */
  at(nowMs: number): number;
}

const KEPT_MS = 1000;

export function createDelayMeter(): DelayMeter {
  let speed = 1;
  let leastMs = Number.POSITIVE_INFINITY;
  let [worstMs, worstAtMs] = [0, Number.NEGATIVE_INFINITY];
  return {
    take(positionNs, nowMs) {
      const differenceMs = nowMs - positionNs / 1e6 / speed;
      leastMs = Math.min(leastMs, differenceMs);
      const delayMs = differenceMs - leastMs;
      if (delayMs >= worstMs || nowMs - worstAtMs > KEPT_MS) [worstMs, worstAtMs] = [delayMs, nowMs];
      return delayMs;
    },
    reset(speedFactor) {
      speed = speedFactor;
      leastMs = Number.POSITIVE_INFINITY;
      worstMs = 0;
    },
    at: (nowMs) => (nowMs - worstAtMs > KEPT_MS ? 0 : worstMs),
  };
}
