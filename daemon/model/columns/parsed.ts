/** Checks JSON from an answer. Errors name the field, because a daemon of another version may use other fields. */

/**
 * An object from `JSON.parse`. Only its own properties are read, because a missing property may have an inherited
 * value.
 */
export type ParsedFields = Readonly<Record<string, unknown>>;

/** A decimal integer of up to 20 digits, which is slightly more than 64 bits. */
export const INTEGER = /^-?\d{1,20}$/;

export function parseRecord(value: unknown, name: string): ParsedFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(`${name} is no object`);
  return value as ParsedFields;
}

export function parseList(value: unknown, name: string, length?: number): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`${name} is no list`);
  if (length !== undefined && value.length !== length)
    throw new Error(`${name} has ${value.length} values instead of ${length}`);
  return value;
}

export function parseText(value: unknown, name: string): string {
  if (typeof value !== 'string') throw new Error(`${name} has a value that is no text`);
  return value;
}

/** Checks that a value is an index below `size`, and returns it. */
export function parseIndex(value: unknown, size: number, name: string): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value >= size)
    throw new Error(`${name} has a value that is no index below ${size}`);
  return value;
}

/** Parses an integer, which is a number if a double represents it exactly, and decimal text otherwise. */
export function parseInteger(value: unknown, name: string, isSigned: boolean): bigint {
  const isInteger =
    (typeof value === 'number' && Number.isSafeInteger(value)) || (typeof value === 'string' && INTEGER.test(value));
  const integer = isInteger ? BigInt(value) : null;
  if (integer === null || (integer < 0n && !isSigned))
    throw new Error(`${name} has a value that is no integer in its range`);
  return integer;
}
