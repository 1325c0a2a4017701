/** Durations in text form, exact to the nanosecond: no floating point is involved. */

const UNIT_NS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
};

/** Maximum length of a text: enough for any 64-bit number of nanoseconds. Longer texts would only cost time. */
const DURATION_CHARACTERS_MAX = 64;
const PART = /(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)/y;

/** Text of a zero, which needs no unit. */
const ZERO = /^0+$/;

/**
 * Parses durations such as `1h30m`, `2ms` or `1.5s` to nanoseconds. Returns undefined for any other text, and for a
 * fraction of a nanosecond.
 */
export function parseDuration(text: string): bigint | undefined {
  if (text === '' || text.length > DURATION_CHARACTERS_MAX) return undefined;
  if (ZERO.test(text)) return 0n;
  let total = 0n;
  PART.lastIndex = 0;
  while (PART.lastIndex < text.length) {
    const match = PART.exec(text);
    if (!match) return undefined;
    const ns = scaleDecimal(match[1]!, UNIT_NS[match[2]!]!);
    if (ns === undefined) return undefined;
    total += ns;
  }
  return total;
}

/**
 * Parses decimal milliseconds (`0.05`) to nanoseconds; undefined if the text is not a decimal or is finer than a
 * nanosecond.
 */
export function parseMilliseconds(text: string): bigint | undefined {
  const decimal = text.length <= DURATION_CHARACTERS_MAX && /^\d+(\.\d+)?$/.test(text);
  return decimal ? scaleDecimal(text, UNIT_NS.ms!) : undefined;
}

/** Formats nanoseconds as decimal milliseconds: the inverse of `parseMilliseconds`. */
export function formatMilliseconds(ns: bigint): string {
  const fraction = (ns % 1_000_000n).toString().padStart(6, '0').replace(/0+$/, '');
  return `${ns / 1_000_000n}${fraction && `.${fraction}`}`;
}

function scaleDecimal(decimal: string, scale: bigint): bigint | undefined {
  const [whole = '', fraction = ''] = decimal.split('.');
  const scaled = BigInt(whole + fraction) * scale;
  const divisor = 10n ** BigInt(fraction.length);
  return scaled % divisor === 0n ? scaled / divisor : undefined;
}
