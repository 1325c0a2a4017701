/** Rows of the tables `by_id` and `pinned_by_id`. Each row is the summary of a transaction in one segment. */
import type { RowOf } from '../../../agent/clickhouse/connection/rows.ts';

export const BY_ID = {
  id: 'text',
  day: 'number',
  recording: 'number',
  first_number: 'number',
  owners: 'texts',
  node: 'text',
  services: 'texts',
  t_min: 'number',
  own_min: 'number',
  t_max: 'number',
  end_max: 'number',
  n: 'number',
  errors: 'number',
  slowest_duration_ns: 'number',
  slowest_number: 'number',
  trace_id: 'id',
  written_back_count: 'number',
  written_back_bytes: 'number',
  written_back_end_ns: 'number',
} as const;

export type ByIdRow = RowOf<typeof BY_ID>;
