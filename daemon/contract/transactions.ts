/** Schemas of transactions in the API's answers. */
import { z } from 'zod';
import { apiEventSchema, described, int64 } from '../../bpf/schema/api.ts';
import { coverageSchema } from './coverage_schema.ts';

const integer = (description: string) => int64().meta({ description });

export const writtenBackSchema = z.object({
  count: described(
    z.int().nonnegative(),
    'block requests that carried some of its data, including ambiguous ones, which its summary counts',
  ),
  bytes: integer('bytes of its data in these requests'),
  last_end_ns: described(int64().nullable(), 'end of the last of these requests; null without any'),
});

export const transactionSchema = z
  .object({
    transaction_id: z.string(),
    trace_id: described(z.string().nullable(), 'W3C trace id, when one is known'),
    first_timestamp_ns: integer(
      'start of its first own event, or of its first event if all were written back later; nanoseconds since the epoch',
    ),
    last_end_ns: integer('end of the last of its own events, for which its caller waited'),
    duration_ns: integer('time from first_timestamp_ns to last_end_ns'),
    written_back: described(writtenBackSchema, 'write-back of its data by other processes, mostly after its end'),
    event_count: described(z.int().positive(), 'recorded events, including those that retention has removed since'),
    error_count: described(z.int().nonnegative(), 'recorded events that failed'),
    slowest_event_id: z.string(),
    services: described(z.array(z.string()), 'services that took part'),
    nodes: described(z.array(z.string()), 'nodes that took part'),
    pinned: described(z.boolean(), 'whether retention keeps it'),
  })
  .meta({ id: 'Transaction', description: 'one transaction, as far as the recordings contain it' });

export const wholeTransactionSchema = transactionSchema.extend({ coverage: coverageSchema });

const exactInteger = (description: string) => z.bigint().meta({ type: 'integer', description });

const counted = {
  count: described(z.int().nonnegative(), 'calls or requests'),
  error_count: described(z.int().nonnegative(), 'calls or requests that failed'),
  bytes: exactInteger('bytes that they transferred'),
};

const callSums = { ...counted, duration_ns: exactInteger('sum of their durations, which may overlap between threads') };

export const transactionSummarySchema = z.object({
  transaction: transactionSchema,
  calls: described(z.object(callSums), 'its writes and syncs, for which its callers waited'),
  requests: described(
    z.object({
      ...counted,
      ambiguous_count: described(z.int().nonnegative(), 'requests whose owner is not certain'),
      ambiguous_bytes: exactInteger('bytes of these requests'),
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
        sync_duration_ns: exactInteger('sum of the durations of these syncs'),
      }),
    ),
    'its calls by file, those with the most time first',
  ),
  file_count: described(z.int().nonnegative(), 'number of all files: the list may be shorter'),
  coverage: coverageSchema,
});

export const transactionsSchema = z.object({
  transactions: z.array(transactionSchema),
  next_cursor: described(z.string().nullable(), 'cursor of the next page; null on the last page'),
  coverage: coverageSchema,
});
