/** Formats durations for users. */

const UNITS = [
  ['s', 1_000_000_000n],
  ['ms', 1_000_000n],
  ['us', 1_000n],
] as const;

/**
 * Formats a duration, such as `1.234ms`. Cuts the value to three decimal places and does not round, so 999.9996ms does
 * not become 1000.000ms.
 */
export function formatDuration(ns: bigint): string {
  const sign = ns < 0n ? '-' : '';
  const size = ns < 0n ? -ns : ns;
  const [unit, scale] = UNITS.find(([, unit_ns]) => size >= unit_ns) ?? ['ns', 1n];
  if (scale === 1n) return `${sign}${size}ns`;
  const thousandths = ((size % scale) * 1000n) / scale;
  return `${sign}${size / scale}.${thousandths.toString().padStart(3, '0')}${unit}`;
}
