/**
 * `GET /api/heatmap`: converts the URL's parameters to a filter of transactions or events and to the columns of time.
 */

import { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import { min } from '../base/bigints.ts';
import type { NodeSpan, RecordingState, TransactionReach } from '../store/store.ts';
import { COLUMNS_MAX, computeHeatmapColumns, type HeatmapColumns } from '../sums/heatmap.ts';
import { type CoverageDetail, coverageDetail } from './coverage_schema.ts';
import { buildEventFilter, eventConditions } from './event_conditions.ts';
import { omitUndefined } from './omit_undefined.ts';
import * as parameter from './parameters.ts';
import { checkPopulationParameters, type Population, populationKind } from './population.ts';
import { parseQuery, type Query } from './query_string.ts';

export const COLUMNS_DEFAULT = 100;

export const heatmapQuerySchema = z
  .strictObject({
    of: populationKind,
    columns: described(
      parameter.integer(1, COLUMNS_MAX),
      `maximum number of columns of time, ${COLUMNS_DEFAULT} unless given: columns are equally long, in whole nanoseconds`,
    ),
    ...eventConditions,
    from: described(
      parameter.time,
      'start of the first column; unless given, the first recorded event, or the start of the first counted transaction if that is earlier',
    ),
    to: described(parameter.time, 'end of the window; the end of the recordings unless given'),
    service: described(parameter.names, 'events of these services, or transactions in which one took part; a list'),
    node: described(parameter.hosts, 'events that these hosts recorded, or transactions with such events; a list'),
    has_error: described(parameter.boolean, 'whether any event of a transaction failed'),
    coverage: coverageDetail,
  })
  .partial();

export type HeatmapQuery = { columnCount: number; nowNs: bigint; detail: CoverageDetail | undefined } & Population;

/** Parameters that only one kind of population has. */
const OF_EVENTS = ['transaction_id', 'trace_id', 'pid', 'failed', 'queued_by'] as const;
const OF_TRANSACTIONS = ['has_error'] as const;

export function parseHeatmapQuery(query: Query, nowNs: bigint): HeatmapQuery {
  const { of = 'transactions', columns = COLUMNS_DEFAULT, has_error, ...rest } = parseQuery(query, heatmapQuerySchema);
  const { coverage: detail, ...given } = rest;
  checkPopulationParameters(of, query, { events: OF_EVENTS, transactions: OF_TRANSACTIONS });
  const filter = buildEventFilter(given, nowNs);
  const common = { columnCount: columns, nowNs, detail };
  return of === 'events'
    ? { ...common, of, filter }
    : { ...common, of, filter: omitUndefined({ ...filter, hasError: has_error }) };
}

/**
 * Returns the time columns of a query. If the query has no bounds, the columns cover the time of the recordings and
 * begin no later than `reach`: a transaction may have begun on another node, or with events that retention has removed.
 */
export function computeQueryColumns(
  { of, columnCount, nowNs, filter }: HeatmapQuery,
  states: readonly RecordingState[],
  spans: readonly NodeSpan[],
  reach: TransactionReach | null,
): HeatmapColumns {
  const excluded = of === 'events' ? (filter.excluded?.nodes ?? []) : [];
  const isAsked = ({ node }: { node: string }) =>
    (!filter.nodes || filter.nodes.includes(node)) && !excluded.includes(node);
  const own = states.filter(isAsked);
  const starts = [...own.map(({ firstTimestampNs }) => firstTimestampNs), reach?.fromNs].flatMap((ns) => ns ?? []);
  const ends = [
    ...own.flatMap(({ lastTimestampNs }) => (lastTimestampNs === null ? [] : lastTimestampNs + 1n)),
    ...spans.filter(isAsked).map(({ toNs }) => toNs),
  ];
  const toNs = filter.toNs ?? ends.reduce<bigint | undefined>(larger, undefined) ?? nowNs;
  const fromNs = filter.fromNs ?? starts.reduce(min, toNs);
  return computeHeatmapColumns(fromNs, toNs > fromNs ? toNs : fromNs, columnCount);
}

function larger(value: bigint | undefined, other: bigint): bigint {
  return value === undefined || other > value ? other : value;
}
