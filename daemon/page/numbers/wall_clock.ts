/** Times of day, in UTC, with all nine digits of a second. */

const SECOND_NS = 1_000_000_000n;
const CLOCK = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s?(?:Z|UTC)?$/i;

/** `2026-11-21 01:37:31.204519240` for nanoseconds since the epoch. */
export function clockText(ns: bigint): string {
  const { seconds, fractionNs } = divided(ns);
  const date = new Date(Number(seconds) * 1000);
  // Text of a recording's time is shown even if the time makes no sense.
  if (Number.isNaN(date.getTime())) return `${ns} ns since the epoch`;
  return `${date.toISOString().slice(0, -5).replace('T', ' ')}.${String(fractionNs).padStart(9, '0')}`;
}

/** The part of `clockText` after the date. */
export function timeOfDay(ns: bigint): string {
  return clockText(ns).replace(/^\S+ (?=\d\d:)/, '');
}

/** Seconds before the epoch are rounded down, so that the fraction is never negative. */
function divided(ns: bigint): { seconds: bigint; fractionNs: bigint } {
  const fractionNs = ((ns % SECOND_NS) + SECOND_NS) % SECOND_NS;
  return { seconds: (ns - fractionNs) / SECOND_NS, fractionNs };
}

/**
 * Nanoseconds since the epoch of a time as `clockText` writes it; seconds may be left out, and a `T` and `Z` are as in
 * ISO 8601. Null for other text and for a day that no month has.
 */
export function parseClock(text: string): bigint | null {
  const match = CLOCK.exec(text.trim());
  if (!match) return null;
  const [, year, month, day, hour, minute, second = '00', fraction = ''] = match;
  const written = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const date = new Date(written);
  // February 30 becomes March 2.
  if (Number.isNaN(date.getTime()) || date.toISOString() !== written) return null;
  return BigInt(date.getTime() / 1000) * SECOND_NS + BigInt(fraction.padEnd(9, '0'));
}
