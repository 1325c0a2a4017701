import type { NativeVariable } from './addon.ts';
import { createMisuseError } from './errors.ts';

export type VariableValue = number | bigint | boolean | Uint8Array;

/**
 * Returns the little-endian bytes of a value. Throws if the variable cannot represent the value. The addon checks the
 * size of a Uint8Array.
 */
export function encodeVariable(variable: NativeVariable, value: VariableValue): Uint8Array {
  if (typeof value === 'object') return value;
  const { name, size, kind } = variable;
  if (kind === 'bytes')
    throw createMisuseError(TypeError, 'ERR_INVALID_ARG_TYPE', `Expected '${name}' to be a Uint8Array`);
  if (typeof value !== 'bigint' && typeof value !== 'boolean' && !Number.isSafeInteger(value)) {
    throw createMisuseError(
      TypeError,
      'ERR_INVALID_ARG_TYPE',
      `Expected '${name}' to be an integer, a boolean or a Uint8Array`,
    );
  }
  const bits = BigInt(size) * 8n;
  const max = kind === 'boolean' ? 1n : kind === 'signed' ? (1n << (bits - 1n)) - 1n : (1n << bits) - 1n;
  const min = kind === 'signed' ? -max - 1n : 0n;
  const whole = BigInt(value);
  if (whole < min || whole > max) {
    throw createMisuseError(
      RangeError,
      'ERR_OUT_OF_RANGE',
      `Expected '${name}' to be from ${min} to ${max}, got ${whole}`,
    );
  }
  const bytes = new Uint8Array(size);
  for (let i = 0; i < size; i++) bytes[i] = Number((whole >> BigInt(8 * i)) & 0xffn);
  return bytes;
}
