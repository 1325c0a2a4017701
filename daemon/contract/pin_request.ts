/** The body of a request to pin a transaction. */
import { z } from 'zod';
import { parseMilliseconds } from '../base/duration.ts';
import { documented } from './documented.ts';

const BEFORE_MS_DEFAULT = 10_000;
/** Maximum length of the period before the transaction that is also kept: one day. */
export const BEFORE_NS_MAX = 86_400_000_000_000n;

const MESSAGE = 'must be decimal milliseconds, such as 10000 or 0.05, whole nanoseconds, and at most 86400000';

export const pinRequest = z.strictObject({
  before_ms: documented(
    z
      .union([z.number(), z.bigint()], { error: MESSAGE })
      .default(BEFORE_MS_DEFAULT)
      .transform((value, context) => {
        // Up to BEFORE_NS_MAX, a double represents milliseconds exactly to the nanosecond.
        const ns = parseMilliseconds(String(value));
        if (ns !== undefined && ns <= BEFORE_NS_MAX) return ns;
        context.issues.push({ code: 'custom', message: MESSAGE, input: value });
        return z.NEVER;
      }),
    { type: 'number', minimum: 0, maximum: 86_400_000, default: BEFORE_MS_DEFAULT },
  ).meta({ description: 'time before the transaction whose events are kept too, milliseconds' }),
});
