/** 64-bit integers in JSON bodies. */
import { z } from 'zod';
import { documented } from './documented.ts';

const isSafe = (value: bigint) => Number.isSafeInteger(Number(value));

/**
 * Builds the schema of a 64-bit integer in a body: safe integers arrive as numbers and larger ones as bigints; the
 * result is always a bigint.
 */
export function int64(min: bigint, max: bigint) {
  const schema = z
    .union([z.int(), z.bigint()], { error: 'must be an integer' })
    .transform(BigInt)
    .pipe(z.bigint().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));
  return documented(schema, {
    type: 'integer',
    format: 'int64',
    // A bound that a double does not represent exactly is left out, because the int64 format implies it.
    ...(isSafe(min) && { minimum: Number(min) }),
    ...(isSafe(max) && { maximum: Number(max) }),
  });
}
