/**
 * Limits the wait for the rest of an answer. Single bytes do not restart the time-out; otherwise a very slow answer
 * could last forever. Time that the reader takes is not counted.
 */

export interface Patience {
  /** Returns the time within which useful data must arrive. */
  leftMs(): number;
  /** Notes the duration of a wait and the number of bytes that arrived during it. */
  spend(waitedMs: number, bytes: number): void;
  /** Notes that useful data has arrived, which restarts the time-out. */
  renew(): void;
}

/** Number of bytes that count as useful data, even if they are only a part of a large block on a slow line. */
const BYTES_OF_USE = 256 * 1024;
/** Minimum time-out. A time-out of 0 would expire before a chunk that has already arrived is read. */
const LEFT_MS_MIN = 1;

export function createPatience({ timeoutMs, isWhole }: { timeoutMs: number; isWhole?: boolean | undefined }): Patience {
  const untilMs = isWhole ? performance.now() + timeoutMs : Number.POSITIVE_INFINITY;
  let [leftMs, arrived] = [timeoutMs, 0];
  function renew(): void {
    [leftMs, arrived] = [timeoutMs, 0];
  }
  return {
    leftMs: () => Math.max(LEFT_MS_MIN, Math.min(leftMs, untilMs - performance.now())),
    spend(waitedMs, bytes) {
      leftMs -= waitedMs;
      arrived += bytes;
      if (arrived >= BYTES_OF_USE) renew();
    },
    renew,
  };
}
