/** Formats times in UTC, with all nine decimals of a second. */

const SECOND_NS = 1_000_000_000n;

/** Formats nanoseconds since the epoch as `2026-11-21 01:37:31.204519240`. */
export function formatWallClock(ns: bigint): string {
  const { seconds, fractionNs } = splitSeconds(ns);
  const date = new Date(Number(seconds) * 1000);
  // A recorded time that is not a valid date is shown as nanoseconds.
  if (Number.isNaN(date.getTime())) return `${ns} ns since the epoch`;
  return `${date.toISOString().slice(0, -5).replace('T', ' ')}.${String(fractionNs).padStart(9, '0')}`;
}

/**
 * Splits a time into whole seconds and the rest. Seconds are rounded down, also before the epoch, so that the rest is
 * never negative.
 */
function splitSeconds(ns: bigint): { seconds: bigint; fractionNs: bigint } {
  const fractionNs = ((ns % SECOND_NS) + SECOND_NS) % SECOND_NS;
  return { seconds: (ns - fractionNs) / SECOND_NS, fractionNs };
}
