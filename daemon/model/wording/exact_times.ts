/**
 * Times as text. All digits come from BigInts, because nanoseconds since the epoch do not fit into a double; rounded
 * text is only ever shown next to exact text.
 */

const UNITS: readonly (readonly [name: string, ns: bigint])[] = [
  ['ns', 1n],
  ['µs', 1_000n],
  ['ms', 1_000_000n],
  ['s', 1_000_000_000n],
];
const SECOND_NS = 1_000_000_000n;
const LONG_UNITS: readonly (readonly [name: string, seconds: bigint])[] = [
  ['d', 86_400n],
  ['h', 3_600n],
  ['min', 60n],
  ['s', 1n],
];

/** Formats digits in groups of three, separated by plain spaces, which can be copied anywhere. */
export function groupDigits(value: bigint | number | string): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ' ');
}

/** Formats a duration with all digits: `31.302187 ms`. */
export function formatExactDuration(ns: bigint): string {
  const [sign, size] = ns < 0n ? ['-', -ns] : ['', ns];
  const [whole, fraction] = formatDecimal(size, 6)
    .replace(/\.?0+$/, '')
    .split('.');
  return `${sign}${groupDigits(whole!)}${fraction === undefined ? '' : `.${fraction}`} ms`;
}

/** Formats an offset with all digits and always with a sign: `+85.495835 ms`. */
export function formatExactOffset(ns: bigint): string {
  return `${ns < 0n ? '' : '+'}${formatExactDuration(ns)}`;
}

/**
 * Formats a duration with three or four digits: `31.3 ms`, `394.7 ms`, `1.02 s`, `2 min 5 s`. Durations below a
 * microsecond are exact.
 */
export function formatShortDuration(ns: bigint | number): string {
  const exact = typeof ns === 'bigint' ? ns : BigInt(Math.round(ns));
  const [sign, size] = exact < 0n ? ['-', -exact] : ['', exact];
  if (size < 1000n) return `${sign}${size} ns`;
  for (const [name, unitNs] of UNITS.slice(1)) {
    const hundredths = divideRounded(size * 100n, unitNs);
    if (hundredths < 1000n) return `${sign}${formatDecimal(hundredths, 2)} ${name}`;
    const tenths = divideRounded(size * 10n, unitNs);
    if (tenths < (name === 's' ? 600n : 10_000n)) return `${sign}${formatDecimal(tenths, 1)} ${name}`;
  }
  return sign + formatLongDuration(divideRounded(size, SECOND_NS));
}

/** Formats a duration in two units; the number of the smaller unit is rounded. */
function formatLongDuration(seconds: bigint): string {
  const at = LONG_UNITS.findIndex(([, unit]) => seconds >= unit);
  const [name, unit] = LONG_UNITS[at]!;
  const [smallName, small] = LONG_UNITS[at + 1]!;
  const total = divideRounded(seconds, small) * small;
  // Rounding may reach the next larger unit: 59 min 59.6 s becomes 1 h.
  if (at > 0 && total >= LONG_UNITS[at - 1]![1]) return formatLongDuration(total);
  return `${groupDigits(total / unit)} ${name} ${(total % unit) / small} ${smallName}`;
}

/** Returns `size / unit`, rounded to the nearest integer. */
function divideRounded(size: bigint, unit: bigint): bigint {
  return (size * 2n + unit) / (unit * 2n);
}

/** Formats a non-negative integer with its last `places` digits after the decimal point. */
export function formatDecimal(value: bigint, places: number): string {
  if (places === 0) return String(value);
  const digits = String(value).padStart(places + 1, '0');
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}
