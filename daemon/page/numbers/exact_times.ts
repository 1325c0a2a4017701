/**
 * Times as text. All digits come from BigInts, as nanoseconds since the epoch do not fit into a double; a rounded text
 * stands beside an exact one, never in place of it.
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

/** Digits in groups of three. Plain spaces can be copied anywhere. */
export function grouped(value: bigint | number): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ' ');
}

/** All digits: `31 302 187 ns`. */
export function exactDuration(ns: bigint): string {
  return `${grouped(ns)} ns`;
}

/** All digits and always a sign: `+85 495 835 ns`. */
export function exactOffset(ns: bigint): string {
  return `${ns < 0n ? '' : '+'}${grouped(ns)} ns`;
}

/** Three or four digits: `31.3 ms`, `394.7 ms`, `1.02 s`, `2 min 5 s`. Below a microsecond it is exact. */
export function shortDuration(ns: bigint | number): string {
  const exact = typeof ns === 'bigint' ? ns : BigInt(Math.round(ns));
  const [sign, size] = exact < 0n ? ['-', -exact] : ['', exact];
  if (size < 1000n) return `${sign}${size} ns`;
  for (const [name, unitNs] of UNITS.slice(1)) {
    const hundredths = rounded(size * 100n, unitNs);
    if (hundredths < 1000n) return `${sign}${decimal(hundredths, 2)} ${name}`;
    const tenths = rounded(size * 10n, unitNs);
    if (tenths < (name === 's' ? 600n : 10_000n)) return `${sign}${decimal(tenths, 1)} ${name}`;
  }
  return sign + longDuration(rounded(size, SECOND_NS));
}

/** Two units; the smaller one is rounded. */
function longDuration(seconds: bigint): string {
  const at = LONG_UNITS.findIndex(([, unit]) => seconds >= unit);
  const [name, unit] = LONG_UNITS[at]!;
  const [smallName, small] = LONG_UNITS[at + 1]!;
  const total = rounded(seconds, small) * small;
  // Rounding may reach the next larger unit: 59 min 59.6 s is 1 h.
  if (at > 0 && total >= LONG_UNITS[at - 1]![1]) return longDuration(total);
  return `${grouped(total / unit)} ${name} ${(total % unit) / small} ${smallName}`;
}

/** The shortest exact text in one unit, as a person would type it: `5 ms`, `1.5 s`, `31.302187 ms`. */
export function typedDuration(ns: bigint): string {
  const [sign, size] = ns < 0n ? ['-', -ns] : ['', ns];
  if (size === 0n) return '0 ns';
  const at = UNITS.findLastIndex(([, unitNs]) => size >= unitNs);
  const [whole, fraction = ''] = decimal(size, at * 3).split('.');
  const digits = fraction.replace(/0+$/, '');
  return `${sign}${whole}${digits && '.'}${digits} ${UNITS[at]![0]}`;
}

/** `size / unit`, rounded to the nearest integer. */
function rounded(size: bigint, unit: bigint): bigint {
  return (size * 2n + unit) / (unit * 2n);
}

/** A non-negative integer with its last `places` digits behind the point. */
export function decimal(value: bigint, places: number): string {
  if (places === 0) return String(value);
  const digits = String(value).padStart(places + 1, '0');
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

const DURATION_PART = /^(\d[\d ]*)(?:\.(\d+))?\s*(ns|us|µs|μs|ms|s|min|h|d)(?![a-zµμ])\s*/;
const TEXT_MAX = 64;
const UNIT_NS: ReadonlyMap<string, bigint> = new Map([
  ...UNITS,
  ...LONG_UNITS.map(([name, seconds]) => [name, seconds * SECOND_NS] as const),
  ['us', 1_000n],
  ['μs', 1_000n],
]);

/**
 * Nanoseconds of a duration as a person types it, or as it is shown: `5ms`, `+250 ms`, `1.5s`, `2 min 5 s`. Null for
 * other text, and for fractions of a nanosecond: what is not understood is asked again, and never rounded.
 */
export function parseDuration(text: string): bigint | null {
  if (text.length > TEXT_MAX) return null;
  const [, sign, amount] = /^([+-]?)\s*(.*)$/s.exec(text.replace(/\s/g, ' ').trim())!;
  let rest = amount!;
  if (/^0+$/.test(rest)) return 0n;
  let ns: bigint | null = null;
  while (rest !== '') {
    const part = DURATION_PART.exec(rest);
    if (!part) return null;
    const [all, whole = '', fraction = '', unit = ''] = part;
    const digits = whole.trim();
    // Spaces may only group digits: "1 5 ms" is a mistake.
    if (digits.includes(' ') && !/^\d{1,3}( \d{3})+$/.test(digits)) return null;
    const scale = 10n ** BigInt(fraction.length);
    const scaled = BigInt(digits.replaceAll(' ', '') + fraction) * UNIT_NS.get(unit)!;
    if (scaled % scale !== 0n) return null;
    ns = (ns ?? 0n) + scaled / scale;
    rest = rest.slice(all.length);
  }
  return ns === null ? null : sign === '-' ? -ns : ns;
}
