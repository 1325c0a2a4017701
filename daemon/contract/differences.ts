/** Describes the comparison of a box with its window for the API's document. */
import { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import { KEPT_EVENTS_MAX } from '../sums/differences/chosen_transactions.ts';
import { COMPARED_MIN, ROWS_MAX } from '../sums/differences/comparison.ts';
import { FIELDS } from '../sums/differences/profiles.ts';
import { coverageSchema } from './coverage_schema.ts';
import { differencesQuerySchema } from './differences_query.ts';
import type { Endpoint } from './endpoint.ts';
import { count, timeOrNull } from './values.ts';

const exact = (description: string) => z.bigint().meta({ type: 'integer', description });

const partsSchema = z.object({
  queue_ns: exact('time in which a request for which it waited was in a queue'),
  service_ns: exact('time in which a device worked on such a request'),
  sync_ns: exact('time in which one of its syncs ran'),
  write_ns: exact('time in which one of its writes ran'),
  request_ns: exact(
    'time in which a request that one of its threads queued outside such calls was under way: whether a thread waited for it, as for a read, or not, as for read-ahead, is not known',
  ),
  untraced_ns: exact('the rest of the time, of which nothing is recorded'),
});

const sideSchema = z.object({
  count: count('transactions or events'),
  duration_ns: exact('sum of their durations'),
  breakdown: described(
    partsSchema,
    'parts of their time: each moment is in the first part that has it, so the parts add up to duration_ns',
  ),
  median: described(
    z.object({
      duration_ns: exact('median of their durations'),
      breakdown: described(partsSchema, 'median of each part: these do not add up'),
    }),
    'medians, which a single long one hardly changes; each is known to within 1/128 of its size, and 0 if there are none',
  ),
});

export const differencesSchema = z.object({
  of: described(z.enum(['transactions', 'events']), 'the kind that is compared'),
  window: described(
    z.object({
      ...timeOrNull('from', 'start'),
      ...timeOrNull('to', 'exclusive end'),
      narrowed: z.boolean(),
    }),
    `time of the compared transactions or events; null where it has no bound; narrowed to the time of the box if the window has more than ${KEPT_EVENTS_MAX} events`,
  ),
  selected: described(sideSchema, 'transactions or events in the box'),
  others: described(sideSchema, 'transactions or events in the window that are not in the box'),
  event_count: count('events that were read for the comparison'),
  too_few: described(z.boolean(), `whether one side has fewer than ${COMPARED_MIN}, so that nothing is compared`),
  differences: described(
    z
      .array(
        z.object({
          values: z.array(
            z.object({
              field: z.enum(FIELDS),
              value: described(
                z.string(),
                'as a filter by the field takes it: a file that ends in / stands for all files directly in that folder',
              ),
              device: described(z.string(), 'device for which both had requests; only for a neighbour').optional(),
              selected: count('how many of the selected have it'),
              others: count('how many of the others have it'),
            }),
          ),
        }),
      )
      .max(ROWS_MAX),
    'values whose shares differ by more than two percentage points and by more than noise, the largest difference first; values with the same carriers are in one row',
  ),
  more: count('values or rows that are left out at the end'),
  tried: count('values that were tested: the chance that any of the differences is noise is 5 %'),
  equal: described(z.array(z.enum(FIELDS)), 'fields without a difference'),
  left_out: described(z.array(z.enum(FIELDS)), 'fields that have too many values to be compared'),
  coverage: coverageSchema,
});

export const DIFFERENCES_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/api/differences',
    operationId: 'getDifferences',
    tag: 'events',
    summary: 'What sets slow or failed ones apart from the others',
    description:
      'Compares the transactions or events in a box of start and duration with the others of a window, and returns ' +
      'the services, nodes, types, operations, system calls, devices, commands, files and errors that they have more ' +
      'or less often than chance explains. A transaction has what its own events have, and the devices of requests ' +
      'for which its syncs waited. A neighbour is another service, or command without one, that had a request under ' +
      'way on a device when the transaction began to wait for it; it is tested among the transactions that waited for the ' +
      'device and are not of that service. `too_many_events` means that even the time of the box has too many: ask for a ' +
      'shorter one; after `busy` and `query_timeout` try again.',
    curl: '"$api/api/differences?window_from=-15m&min_duration_ms=100"',
    query: differencesQuerySchema,
    success: { status: 200, description: 'The differences.', content: { 'application/json': differencesSchema } },
    errors: ['invalid_parameter', 'too_many_events', 'busy', 'query_timeout'],
  },
];
