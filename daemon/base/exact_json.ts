/** JSON with exact 64-bit integers: bigints are written as bare integers, and parsing rounds no integer. */
import { Problem } from './problem.ts';

// Node has had these functions since version 22; TypeScript's es2024 library does not declare them yet.
interface ExactJson {
  rawJSON(text: string): unknown;
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
}
const exactJson = JSON as unknown as ExactJson;

export function stringify(value: unknown): string {
  return JSON.stringify(value, (_key, item) => (typeof item === 'bigint' ? exactJson.rawJSON(item.toString()) : item));
}

/** Parses JSON; integers that a double does not represent exactly become bigints. */
export function parseJson(text: string): unknown {
  return exactJson.parse(text, (key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? parseExactNumber(key, value, source) : value,
  );
}

const INTEGER = /^-?\d+$/;

function parseExactNumber(field: string, value: number, source: string): number | bigint {
  if (INTEGER.test(source)) return Number.isSafeInteger(value) ? value : BigInt(source);
  if (Number.isInteger(value) && !isExactly(value, source)) {
    const message = `${source} cannot be read exactly; write an integer without fraction or exponent`;
    throw new Problem('invalid_body', `${field}: ${message}`, [{ pointer: `/${field}`, message }]);
  }
  if (!Number.isFinite(value))
    throw new Problem('invalid_body', `${field}: out of range`, [{ pointer: `/${field}`, message: 'out of range' }]);
  return value;
}

/** Returns whether decimal `source` (`1.50e3`) is exactly the safe integer `value`, and not merely close to it. */
function isExactly(value: number, source: string): boolean {
  if (!Number.isSafeInteger(value)) return false;
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  // Trailing zeros move into the exponent, so that 1.000 and 1000e-3 need no fraction.
  const digits = trimTrailingZeros(whole + fraction);
  const scale = Number(exponent) - fraction.length + (whole + fraction).length - digits.length;
  return value === 0 ? !/[1-9]/.test(digits) : scale >= 0;
}

/**
 * Removes the zeros at the end in linear time, unlike a pattern that ends in `0+$`, which would start matching again at
 * each zero.
 */
function trimTrailingZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  return digits.slice(0, end);
}
