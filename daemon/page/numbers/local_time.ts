/** Converts times to and from the text of a date and time field, in the browser's time zone: `2026-11-21T01:37:31`. */
import { I64_MAX } from '../../base/bigints.ts';

const MS_NS = 1_000_000n;
const MINUTE_MS = 60_000;

/** Formats a time in whole seconds; returns an empty text for null, and for a time that the field cannot show. */
export function formatLocalTime(ns: bigint | null): string {
  if (ns === null) return '';
  const ms = Number(ns / MS_NS);
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * MINUTE_MS);
  return Number.isNaN(local.getTime()) ? '' : local.toISOString().slice(0, 19);
}

/**
 * Converts the text of a field to nanoseconds since the epoch; null for an empty text, and for a time outside the
 * range of recordings.
 */
export function parseLocalTime(text: string): bigint | null {
  const ms = Date.parse(text);
  if (!(ms >= 0)) return null;
  const ns = BigInt(ms) * MS_NS;
  return ns <= I64_MAX ? ns : null;
}
