/** How many events arrive, and how far behind the page is, by the time between their ends and their arrival. */

const SECONDS = 60;
/** An end so far after the daemon's clock is wrong, and must not make all others look old. */
const AHEAD_MS_MAX = 5000;
/** What has not been sent waits at the daemon: after so long without an event nothing does. */
const QUIET_MS = 2000;

export interface Arrivals {
  /**
   * Takes an event that ended at `endNs`, nanoseconds since the epoch. One that is late says nothing of the page: it was
   * long under way, or its node could not send it.
   */
  add(endNs: bigint, nowMs: number, isLate?: boolean): void;
  /** Events of the last whole second. */
  perSecond(nowMs: number): number;
  /** Events of the last minute, or of the time since the beginning, a second; up to the last whole second. */
  perSecondOfMinute(nowMs: number): number;
  /** Milliseconds by which what arrives is older than it could be. */
  behindMs(nowMs: number): number;
  /** The clock of the recorded machines as events show it, nanoseconds since the epoch. */
  clockNs(nowMs: number): bigint;
}

/** `epochMs` is the daemon's wall clock at 0 of the times that are given. */
export function createArrivals(epochMs: number, beganMs: number): Arrivals {
  const [counts, seconds] = [new Uint32Array(SECONDS + 1), new Float64Array(SECONDS + 1).fill(-1)];
  /** The least time between an end and its arrival so far: what clocks differ by, and what no event takes less than. */
  let leastMs = Number.POSITIVE_INFINITY;
  /** The least one of the second that runs, and of the last one before it that had any. */
  let [openSecond, openMs, closedMs] = [-1, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let newestMs = Number.NEGATIVE_INFINITY;

  const secondOf = (nowMs: number) => Math.floor(nowMs / 1000);

  function countOf(second: number): number {
    const slot = second % (SECONDS + 1);
    return seconds[slot] === second ? counts[slot]! : 0;
  }

  return {
    add(endNs, nowMs, isLate = false) {
      const second = secondOf(nowMs);
      const slot = second % (SECONDS + 1);
      if (seconds[slot] !== second) {
        seconds[slot] = second;
        counts[slot] = 0;
      }
      counts[slot]!++;
      if (isLate) return;
      const lagMs = epochMs + nowMs - Number(endNs / 1000n) / 1000;
      if (lagMs < -AHEAD_MS_MAX) return;
      newestMs = nowMs;
      leastMs = Math.min(leastMs, lagMs);
      if (second !== openSecond) [openSecond, closedMs, openMs] = [second, openMs, Number.POSITIVE_INFINITY];
      openMs = Math.min(openMs, lagMs);
    },
    perSecond: (nowMs) => countOf(secondOf(nowMs) - 1),
    perSecondOfMinute(nowMs) {
      const end = secondOf(nowMs);
      const from = Math.max(beganMs / 1000, end - SECONDS);
      let sum = 0;
      for (let second = Math.floor(from); second < end; second++) sum += countOf(second);
      // What came in the part of a second is no rate.
      return sum / Math.max(end - from, 1);
    },
    behindMs(nowMs) {
      if (nowMs - newestMs > QUIET_MS) return 0;
      return Math.min(openMs, closedMs) - leastMs;
    },
    clockNs(nowMs) {
      const lagMs = Number.isFinite(leastMs) ? leastMs : 0;
      return BigInt(Math.round((epochMs + nowMs - lagMs) * 1000)) * 1000n;
    },
  };
}
