/** Schemas of transactions in the API's answers. */
import { z } from 'zod';
import { apiEventSchema, described, int64 } from '../../bpf/schema/api.ts';
import { coverageSchema } from './coverage_schema.ts';
import { time, timeOrNull } from './values.ts';

const integer = (description: string) => int64().meta({ description });

export const writtenBackSchema = z.object({
  count: described(
    z.int().nonnegative(),
    'block requests that carried some of its data, including ambiguous ones, which its summary counts',
  ),
  bytes: integer('bytes of its data in these requests'),
  ...timeOrNull('last_end_ns', 'end of the last of these requests; null without any'),
});

export const transactionSchema = z
  .object({
    transaction_id: z.string(),
    trace_id: described(z.string().nullable(), 'W3C trace id, when one is known'),
    ...time('first_timestamp_ns', 'start of its first own event, or of its first event if all were written back later'),
    ...time('last_end_ns', 'end of the last of its own events, for which its caller waited'),
    duration_ns: integer('time from first_timestamp_ns to last_end_ns'),
    written_back: described(writtenBackSchema, 'write-back of its data by other processes, mostly after its end'),
    event_count: described(z.int().positive(), 'recorded events, including those that retention has removed since'),
    error_count: described(z.int().nonnegative(), 'recorded events that failed'),
    slowest_event_id: z.string(),
    burst_count: described(
      z.int().nonnegative().nullable(),
      'number of bursts: groups of own events with longer pauses between them than all of them take together, and of at least a second. Several are a sign of an id that was used again; `bursts` of its explanation describes each. Null where it is not known: too many events would have to be read (in a list, those of a few transactions are), not all of its events are there any more, or they cannot be read now',
    ),
    bursts_apart_ns: described(
      int64().nullable(),
      'longest pause between two bursts; 0 for a single one, null like burst_count',
    ),
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

const namedCallSchema = z.object({
  event_id: z.string(),
  call: described(z.string(), 'name of the call, such as fsync'),
  file: described(z.string().nullable(), 'path; null for a call on no file or on an unknown one'),
  comm: described(z.string(), 'command name of the thread'),
  duration_ns: exactInteger('duration of the call'),
});

const callGroupSchema = z.object({
  call: described(z.string().nullable(), 'name of the calls; null if they have several names'),
  file: described(z.string().nullable(), 'path of their file; null if they have several, or none that is known'),
  file_count: described(z.int().nonnegative(), 'number of their files with a known path; a file of each node counts'),
  unknown_file_comms: described(z.array(z.string()), 'command names of calls on no file or on an unknown one'),
  count: described(z.int().positive(), 'number of the calls'),
  time_ns: exactInteger('time in which at least one of them was in progress'),
  longest: described(namedCallSchema, 'the call that took longest'),
});

const WAIT_PARTS = ['queue', 'service', 'sync', 'write'] as const;

const waitSchema = z.object({
  part: described(
    z.enum(WAIT_PARTS),
    'queue: a request of theirs waited before its device got it; service: a device worked on a request of theirs; sync, write: no request of theirs was under way',
  ),
  time_ns: exactInteger('how much of time_ns of the calls that was'),
  node: described(z.string().nullable(), 'node of the device'),
  device: described(z.string().nullable(), 'device with most of that time; null for sync and write'),
  inferred: described(
    z.boolean(),
    'true if others queued these requests, with data of the transaction, while one of these syncs ran: it may have waited for them',
  ),
});

const partsSchema = z.object({
  queue_ns: exactInteger('a request waited before its device got it, and a call waited for the request'),
  service_ns: exactInteger('a device worked on such a request'),
  sync_ns: exactInteger('a sync was in progress without such a request'),
  write_ns: exactInteger('a write was in progress without such a request'),
  request_ns: exactInteger('a request was under way outside of calls, which may or may not have waited for it'),
  untraced_ns: exactInteger('nothing that is recorded was in progress, as during time on a CPU'),
});

const neighbourSchema = z.object({
  name: described(z.string(), 'service, or the command name if there is none'),
  node: z.string(),
  device: described(z.string().nullable(), 'null if it is not known'),
  count: described(z.int().positive(), 'requests of the neighbour on the device, meanwhile'),
  bytes: exactInteger('bytes of these requests, as far as they are known'),
});

const failureSchema = z.object({
  call: z.string(),
  comm: z.string(),
  error: described(z.string(), 'name of the error, such as ENOSPC'),
  count: z.int().positive(),
});

const burstSchema = z.object({
  ...time('from', 'start of its first event'),
  ...time('to', 'end of its last event'),
  event_count: described(z.int().positive(), 'own events of the burst'),
});

export const explanationSchema = z.object({
  sentence: described(
    z.string(),
    'the explanation in words; hidden characters of recorded names are escaped, and long names are cut',
  ),
  transaction: transactionSchema,
  duration_ns: exactInteger(
    'time from the start of the first explained event to the end of the last: duration_ns of the transaction, unless `from` or `to` is given',
  ),
  parts: described(
    partsSchema.nullable(),
    'duration_ns divided by cause; each moment belongs to the first part that applies. Null if there is no own event',
  ),
  calls: described(
    callGroupSchema.nullable(),
    'the calls that took at least half of the time of all calls: those of one name on one file if possible, else those of one name, else all; null without calls',
  ),
  wait: described(waitSchema.nullable(), 'what most of the time of these calls went into; null without calls'),
  neighbours: described(
    z.array(neighbourSchema),
    'others that had requests on devices of the transaction while these calls were in progress, those with most requests first',
  ),
  neighbours_complete: described(z.boolean(), 'false if so many requests were under way that some were not counted'),
  failures: described(z.array(failureSchema), 'calls that failed, the most frequent first'),
  bursts: described(
    z.array(burstSchema),
    'groups of own events with longer pauses between them than all of them take together, and of at least a second: several are a sign of an id that was used again, and `from` and `to` explain one of them',
  ),
  slowest: described(z.array(apiEventSchema), 'its slowest calls, the longest first'),
  coverage: coverageSchema,
});
