/**
 * How long the rest of an answer is waited for. Bytes alone are no sign of life: a byte now and then would let an answer
 * last for ever. Time that the reader takes is not counted.
 */

export interface Patience {
  /** Time within which useful data must arrive. */
  leftMs(): number;
  /** Notes a wait, and how many bytes it brought. */
  spend(waitedMs: number, bytes: number): void;
  /** Notes that useful data has arrived, which begins the time-out again. */
  renew(): void;
}

/** This many bytes are useful data, even if a large block on a slow line is not complete. */
const BYTES_OF_USE = 256 * 1024;
/** A time-out of 0 would come before a chunk that has already arrived. */
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
