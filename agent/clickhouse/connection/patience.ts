/**
 * How long the rest of an answer is waited for. Bytes alone are no sign of life: a byte now and then would let an answer
 * last for ever. Time that the reader takes is not counted.
 */

export interface Patience {
  /** Until something of use has to be there. */
  leftMs(): number;
  /** Notes a wait, and how many bytes it brought. */
  spend(waitedMs: number, bytes: number): void;
  /** Something of use is there. */
  renew(): void;
}

/** So many bytes are of use: a large block on a slow line. */
const BYTES_OF_USE = 256 * 1024;
/** A chunk that is there already needs no time, and a time-out of 0 would come before it. */
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
