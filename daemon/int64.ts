/** 64-bit integers of JSON bodies. */
import { z } from 'zod';
import { documented } from './documented.ts';

const isSafe = (value: bigint) => Number.isSafeInteger(Number(value));

/** A 64-bit integer of a body: safe ones arrive as numbers, the others as bigints; always a bigint from here on. */
export function int64(min: bigint, max: bigint) {
  const schema = z
    .union([z.int(), z.bigint()], { error: 'must be an integer' })
    .transform(BigInt)
    .pipe(z.bigint().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));
  return documented(schema, {
    ...{ type: 'integer', format: 'int64' },
    // What a double does not hold exactly is only the limit of the format.
    ...(isSafe(min) && { minimum: Number(min) }),
    ...(isSafe(max) && { maximum: Number(max) }),
  });
}
