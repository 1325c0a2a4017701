/** Times in the time zone of the browser, as its fields for date and time have them: `2026-11-21T01:37:31`. */
import { I64_MAX } from '../../base/bigints.ts';

const MS_NS = 1_000_000n;
const MINUTE_MS = 60_000;

/** Formats whole seconds of a time; empty for null, and for a time that the field cannot show. */
export function formatLocalTime(ns: bigint | null): string {
  if (ns === null) return '';
  const ms = Number(ns / MS_NS);
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * MINUTE_MS);
  return Number.isNaN(local.getTime()) ? '' : local.toISOString().slice(0, 19);
}

/** Returns the nanoseconds since the epoch; null for an empty field, and for a time that no recording can have. */
export function parseLocalTime(text: string): bigint | null {
  const ms = Date.parse(text);
  if (!(ms >= 0)) return null;
  const ns = BigInt(ms) * MS_NS;
  return ns <= I64_MAX ? ns : null;
}
