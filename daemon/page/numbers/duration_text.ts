/** Reads durations as a person types them, and formats durations exactly. */
import { I64_MAX } from '../../base/bigints.ts';
import { formatDecimal } from '../../model/wording/exact_times.ts';

/** Number of decimal places of each unit, down to a nanosecond. */
const PLACES: ReadonlyMap<string, number> = new Map([
  ['ns', 0],
  ['µs', 3],
  ['us', 3],
  ['ms', 6],
  ['s', 9],
]);
const MINUTES_NS: ReadonlyMap<string, bigint> = new Map([
  ['min', 60_000_000_000n],
  ['h', 3_600_000_000_000n],
]);
const FORM = /^([+-]?)([\d ]*\d)(?:\.(\d+))? *([a-zµ]*)$/;
const TEXT_MAX = 60;
const INT64_MAX = I64_MAX;

/**
 * Returns the nanoseconds of `5 ms`, `1.5s`, `+250 us` or `3 200 187 ns`; a number without a unit is in milliseconds.
 * Returns null for text that is not a duration, for fractions of a nanosecond, and for more than 64 bits.
 */
export function parseDuration(text: string): bigint | null {
  if (text.length > TEXT_MAX) return null;
  // Users may type the Greek letter mu, which is a different character than the micro sign.
  const [, sign, digits, fraction = '', unit] = FORM.exec(text.trim().replaceAll('\u03bc', 'µ')) ?? [];
  if (digits === undefined) return null;
  const whole = BigInt(digits.replaceAll(' ', ''));
  const ns = scaleToNs(whole, fraction, unit || 'ms');
  if (ns === null || ns > INT64_MAX) return null;
  return sign === '-' ? -ns : ns;
}

function scaleToNs(whole: bigint, fraction: string, unit: string): bigint | null {
  const minutes = MINUTES_NS.get(unit);
  if (minutes !== undefined) return fraction === '' ? whole * minutes : null;
  const places = PLACES.get(unit);
  const written = fraction.replace(/0+$/, '');
  if (places === undefined || written.length > places) return null;
  return whole * 10n ** BigInt(places) + BigInt(written.padEnd(places, '0') || '0');
}

/**
 * Formats a duration with all digits, in the largest unit in which it is at least one: `5 ms`, `31.302187 ms`, `250
 * µs`.
 */
export function formatDuration(ns: bigint): string {
  const [sign, size] = ns < 0n ? ['-', -ns] : ['', ns];
  const [unit, places] =
    size < 1000n ? ['ns', 0] : size < 1_000_000n ? ['µs', 3] : size < 1_000_000_000n ? ['ms', 6] : ['s', 9];
  const text = formatDecimal(size, places as number);
  return `${sign}${text.includes('.') ? text.replace(/\.?0+$/, '') : text} ${unit}`;
}
