/** What replay's requests look like. */
import { z } from 'zod';
import { int64 } from '../input.ts';
import type { SeekTarget } from './target.ts';

const MAX_INT64 = 2n ** 63n - 1n;
export const SPEED_FACTOR_MIN = 0.001;
export const SPEED_FACTOR_MAX = 1000;
/** One hour. */
export const EXTRA_LATENCY_NS_MAX = 3_600_000_000_000n;
const STEP_EVENTS_MAX = 10_000;

export const createRequest = z.strictObject({
  transaction_id: z.string().min(1, 'must not be empty').meta({ description: 'what is played' }),
  speed_factor: z
    .number({ error: 'must be a number' })
    .min(SPEED_FACTOR_MIN, `must be at least ${SPEED_FACTOR_MIN}`)
    .max(SPEED_FACTOR_MAX, `must be at most ${SPEED_FACTOR_MAX}`)
    .default(1)
    .meta({ description: '2 is twice as fast as it was' }),
  extra_latency_ns: int64(0n, EXTRA_LATENCY_NS_MAX)
    .default(0n)
    .meta({ description: 'added to the duration of every event, on the recorded time line, nanoseconds' }),
  timeout_ns: int64(1n, MAX_INT64)
    .nullable()
    .default(null)
    .meta({ description: "a caller's deadline from the start of the transaction, nanoseconds" }),
});
export type CreateRequest = z.output<typeof createRequest>;

/** play, pause and stop take nothing. */
export const noFields = z.strictObject({});

const anyInt64 = int64(-MAX_INT64 - 1n, MAX_INT64);
const SEEK_FIELDS = 'position_ns, timestamp_ns, event_id, event_index';

export const seekRequest = z
  .strictObject({
    position_ns: anyInt64.optional(),
    timestamp_ns: anyInt64.optional(),
    event_id: z.string().optional(),
    event_index: anyInt64.optional(),
  })
  .refine((fields) => Object.keys(fields).length === 1, `exactly one of ${SEEK_FIELDS} is needed`)
  .transform((fields) => fields as SeekTarget);

export const stepRequest = z.strictObject({
  count: z
    .int({ error: 'must be an integer' })
    .min(-STEP_EVENTS_MAX, `must be at least -${STEP_EVENTS_MAX}`)
    .max(STEP_EVENTS_MAX, `must be at most ${STEP_EVENTS_MAX}`)
    .refine((count) => count !== 0, 'must not be 0')
    .default(1),
});
