/** Reads a time in UTC as a person writes it. */
import { I64_MAX } from '../../base/bigints.ts';

const CLOCK = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?Z?$/;
const DIGITS = /^\d{1,19}$/;
const INT64_MAX = I64_MAX;

/**
 * Returns the nanoseconds since the epoch for `2026-11-21 01:37`, for such a time with seconds and up to nine decimal
 * places, or for the nanoseconds themselves; null for any other text.
 */
export function parseClockNs(text: string): bigint | null {
  const trimmed = text.trim();
  if (DIGITS.test(trimmed)) return acceptInRange(BigInt(trimmed));
  const [, date, minutes, seconds = '00', fraction = ''] = CLOCK.exec(trimmed) ?? [];
  if (date === undefined) return null;
  const iso = `${date}T${minutes}:${seconds}`;
  const ms = Date.parse(`${iso}Z`);
  // A date such as 30 February would be read as a day in March.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 19) !== iso) return null;
  return acceptInRange(BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0')));
}

function acceptInRange(ns: bigint): bigint | null {
  return ns >= 0n && ns <= INT64_MAX ? ns : null;
}
