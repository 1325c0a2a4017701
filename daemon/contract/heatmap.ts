/** Describes the heatmap of durations over time, for the API's document. */
import { z } from 'zod';
import { described, int64 } from '../../bpf/schema/api.ts';
import { COLUMNS_MAX } from '../sums/heatmap.ts';
import { coverageSchema } from './coverage_schema.ts';
import type { Endpoint } from './endpoint.ts';
import { heatmapQuerySchema } from './heatmap_query.ts';
import { time } from './values.ts';

const count = (description: string) => described(z.int().nonnegative(), description);

export const heatmapSchema = z.object({
  of: described(z.enum(['transactions', 'events']), 'the kind that is counted'),
  ...time('from', 'start of the first column'),
  ...time('to', 'end of the window; the last column may reach beyond it'),
  column_ns: described(int64(), 'length of each column'),
  column_count: described(z.int().nonnegative().max(COLUMNS_MAX), 'number of columns; 0 for a window without length'),
  first_row: count('lowest row that is not empty'),
  row_edges: described(
    z.array(int64()),
    'starts of the rows from first_row on, and end of the last one, nanoseconds: a row contains the durations from its start to below its end',
  ),
  cells: described(
    z.array(z.tuple([z.int().nonnegative(), z.int().nonnegative(), z.int().positive(), z.int().nonnegative()])),
    'column, row, count, and count of failures; empty cells are left out',
  ),
  total: described(
    z.object({
      count: count('transactions or events in all cells'),
      failed: count('transactions or events that failed'),
      duration_ns: z.object({
        sum: described(z.bigint().meta({ type: 'integer' }), 'exact sum of their durations'),
        max: described(int64().nullable(), 'longest duration; null without any'),
      }),
    }),
    'sums over all cells',
  ),
  coverage: coverageSchema,
});

export const HEATMAP_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'get',
    path: '/api/heatmap',
    operationId: 'getHeatmap',
    tag: 'events',
    summary: 'How many began when and took how long',
    description:
      'Counts transactions or events in a grid: columns of time by rows of duration, 16 rows in each decade of ' +
      'nanoseconds, whose edges never change, so that maps with the same columns add up. A transaction is where its ' +
      'first own event began, and as long as its caller waited. Parameters of the other kind are refused; `too_many_events` means that a filter of transactions by ' +
      'values of their events needs too many: ask for a shorter window; after `busy` ' +
      'and `query_timeout` try again, or ask for a shorter window.',
    curl: '"$api/api/heatmap?from=-15m&columns=60"',
    query: heatmapQuerySchema,
    success: { status: 200, description: 'The map.', content: { 'application/json': heatmapSchema } },
    errors: ['invalid_parameter', 'too_many_events', 'busy', 'query_timeout'],
  },
];
