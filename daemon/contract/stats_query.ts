/** `GET /api/stats`: converts the URL's parameters to the events that are counted and their grouping. */

import { z } from 'zod';
import { I64_MAX } from '../base/bigints.ts';
import { parseDuration } from '../base/duration.ts';
import type { EventFilter } from '../store/store.ts';
import { DIMENSION_NAMES, type DimensionName } from '../sums/dimensions.ts';
import { type CoverageDetail, coverageDetail } from './coverage_schema.ts';
import { buildEventFilter, eventConditions } from './event_conditions.ts';
import * as parameter from './parameters.ts';
import { parseQuery, type Query } from './query_string.ts';

const DURATION_NS_MAX = I64_MAX;

const bucket = parameter.parsed((value) => {
  const ns = parseDuration(value);
  return ns !== undefined && ns > 0n && ns <= DURATION_NS_MAX ? ns : undefined;
}, 'must be a duration such as 10s, 1m or 500ms');

const groupBy = parameter.texts.pipe(
  z
    .array(
      z.enum(DIMENSION_NAMES, {
        error: ({ input }) =>
          `${JSON.stringify(input)} is nothing to group by; known are: ${DIMENSION_NAMES.join(', ')}`,
      }),
    )
    .refine((names) => new Set(names).size === names.length, 'must not name anything twice'),
);

export const statsQuerySchema = z
  .strictObject({
    ...eventConditions,
    bucket: bucket.meta({
      description:
        'length of the buckets of time, which begin at whole multiples of it since the epoch; one bucket for all time unless given',
    }),
    group_by: groupBy.meta({
      description: `fields whose values have their own rows; a list of ${DIMENSION_NAMES.join(', ')}`,
    }),
    coverage: coverageDetail,
  })
  .partial();

export interface StatsQuery {
  filter: EventFilter;
  bucketNs: bigint | undefined;
  groupBy: readonly DimensionName[];
  detail: CoverageDetail | undefined;
}

export function parseStatsQuery(query: Query, nowNs: bigint): StatsQuery {
  const { bucket: bucketNs, group_by = [], coverage: detail, ...conditions } = parseQuery(query, statsQuerySchema);
  return { filter: buildEventFilter(conditions, nowNs), bucketNs, groupBy: group_by, detail };
}
