/** Schemas of transactions in the API's answers. */
import { z } from 'zod';
import { apiEventSchema, described, int64 } from '../../bpf/schema/api.ts';
import { coverageSchema } from './coverage_schema.ts';

const integer = (description: string) => int64().meta({ description });

export const writtenBackSchema = z.object({
  count: described(
    z.int().nonnegative(),
    'block requests that carried some of its data, ambiguous ones too: its summary says how many those are',
  ),
  bytes: integer('of its data in them'),
  last_end_ns: described(int64().nullable(), 'when the last of them ended; null when there are none'),
});

export const transactionSchema = z
  .object({
    transaction_id: z.string(),
    trace_id: described(z.string().nullable(), 'W3C trace id, when one is known'),
    first_timestamp_ns: integer(
      'start of its first event of its own, or of its first event if all were written back later; nanoseconds since the epoch',
    ),
    last_end_ns: integer('when the last of its own events ended, which its caller waited for'),
    duration_ns: integer('between these two'),
    written_back: described(writtenBackSchema, 'write-back of its data by other processes, mostly after its end'),
    event_count: described(z.int().positive(), 'events recorded, also those that retention has removed since'),
    error_count: described(z.int().nonnegative(), 'events of them that failed'),
    slowest_event_id: z.string(),
    services: described(z.array(z.string()), 'that took part'),
    nodes: described(z.array(z.string()), 'that took part'),
    pinned: described(z.boolean(), 'whether retention keeps it'),
  })
  .meta({ id: 'Transaction', description: 'what the recordings hold of one transaction' });

export const wholeTransactionSchema = transactionSchema.extend({ coverage: coverageSchema });

const exactInteger = (description: string) => z.bigint().meta({ type: 'integer', description });

const counted = {
  count: described(z.int().nonnegative(), 'how many'),
  error_count: described(z.int().nonnegative(), 'of them that failed'),
  bytes: exactInteger('that they transferred'),
};

const callSums = { ...counted, duration_ns: exactInteger('sum of their durations; those of threads may overlap') };

export const transactionSummarySchema = z.object({
  transaction: transactionSchema,
  calls: described(z.object(callSums), 'its writes and syncs, for which its callers waited'),
  requests: described(
    z.object({
      ...counted,
      ambiguous_count: described(z.int().nonnegative(), 'of them whose owner is not certain'),
      ambiguous_bytes: exactInteger('that these transferred'),
    }),
    'block requests that carried its data, at any time',
  ),
  slowest: described(z.array(apiEventSchema), 'its slowest calls, the longest first'),
  files: described(
    z.array(
      z.object({
        file: described(z.string().nullable(), 'path; null for calls on no file or on an unknown one'),
        ...callSums,
        sync_count: described(z.int().nonnegative(), 'syncs among the calls'),
        sync_duration_ns: exactInteger('sum of the durations of these'),
      }),
    ),
    'its calls by file, those with the most time first',
  ),
  file_count: described(z.int().nonnegative(), 'files in all: the list may be shorter'),
  coverage: coverageSchema,
});

export const transactionsSchema = z.object({
  transactions: z.array(transactionSchema),
  next_cursor: described(z.string().nullable(), 'where the next page begins; null on the last one'),
  coverage: coverageSchema,
});
