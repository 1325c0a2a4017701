/** Parses sizes with units. */

const UNIT_BYTES: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** Parses a size such as `500MB`, `20GiB` or `8388608`; returns bytes, or undefined for anything else. */
export function parseBytes(text: string): number | undefined {
  const [, digits, unit = 'B'] = /^(\d{1,15}(?:\.\d{1,6})?)\s?([KMGT]?i?B)?$/.exec(text) ?? [];
  const factor = UNIT_BYTES[unit];
  if (digits === undefined || factor === undefined) return undefined;
  const bytes = Math.floor(Number(digits) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
