/** `GET /api/differences`: converts the URL's parameters to a box and to the window with which the box is compared. */
import { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import { Problem } from '../base/problem.ts';
import type { ComparisonRequest, FoundComparison, Store } from '../store/store.ts';
import type { Box } from '../sums/box.ts';
import { KEPT_EVENTS_MAX } from '../sums/differences/chosen_transactions.ts';
import { type CoverageDetail, coverageDetail } from './coverage_schema.ts';
import {
  buildEventFilter,
  buildValueFilter,
  eventConditions,
  exclusions,
  valueConditions,
} from './event_conditions.ts';
import { omitUndefined } from './omit_undefined.ts';
import * as parameter from './parameters.ts';
import { checkPopulationParameters, type Population, populationKind } from './population.ts';
import { parseQuery, type Query } from './query_string.ts';
import { createReversedProblem, type TimeRange } from './time_range.ts';

const { transaction_id, trace_id, pid } = eventConditions;

export const differencesQuerySchema = z
  .strictObject({
    of: populationKind,
    from: described(parameter.time, 'box: transactions or events that began at or after this time'),
    to: described(parameter.time, 'box: transactions or events that began before this time'),
    min_duration_ms: described(parameter.milliseconds, 'box: minimum duration, in decimal milliseconds'),
    max_duration_ms: described(parameter.milliseconds, 'box: maximum duration, in decimal milliseconds'),
    failed: described(
      parameter.boolean,
      'box: true for failures, false for others; a transaction fails if one of its events does',
    ),
    window_from: described(
      parameter.time,
      'window: compares those that began at or after this time; everything unless given',
    ),
    window_to: described(parameter.time, 'window: compares those that began before this time'),
    window_min_duration_ms: described(parameter.milliseconds, 'window: minimum duration, in decimal milliseconds'),
    window_max_duration_ms: described(parameter.milliseconds, 'window: maximum duration, in decimal milliseconds'),
    window_failed: described(parameter.boolean, 'window: true for failures, false for others'),
    service: described(parameter.names, 'events of these services, or transactions in which one took part; a list'),
    node: described(parameter.hosts, 'events that these hosts recorded, or transactions with such events; a list'),
    ...valueConditions,
    ...exclusions,
    transaction_id,
    trace_id,
    pid,
    coverage: coverageDetail,
  })
  .partial();

type ComparedPopulation = Population & { box: Box };

export type DifferencesQuery = ComparedPopulation & { detail: CoverageDetail | undefined };

const OF_EVENTS = ['transaction_id', 'trace_id', 'pid'] as const;

export function parseDifferencesQuery(query: Query, nowNs: bigint): DifferencesQuery {
  const given = parseQuery(query, differencesQuerySchema);
  const { of = 'transactions', window_failed: failed, coverage: detail } = given;
  checkPopulationParameters(of, query, { events: OF_EVENTS, transactions: [] });
  const { from, to, min_duration_ms, max_duration_ms } = given;
  const box = buildEventFilter({ from, to, min_duration_ms, max_duration_ms, failed: given.failed }, nowNs) as Box;
  const filter = {
    ...omitUndefined({ transactionId: given.transaction_id, traceId: given.trace_id, pid: given.pid }),
    ...buildValueFilter(given),
    ...resolveWindow(given, nowNs),
  };
  if (of === 'events') return { of, box, detail, filter: omitUndefined({ ...filter, failed }) };
  return { of, box, detail, filter: omitUndefined({ ...filter, hasError: failed }) };
}

type DifferencesParameters = z.output<typeof differencesQuerySchema>;

function resolveWindow(given: DifferencesParameters, nowNs: bigint) {
  const { window_from: from, window_to: to } = given;
  const { window_min_duration_ms: min, window_max_duration_ms: max } = given;
  const range = buildEventFilter({ from }, nowNs).fromNs;
  const { toNs } = buildEventFilter({ to }, nowNs);
  if (range !== undefined && toNs !== undefined && range > toNs)
    throw createReversedProblem('window_from', 'window_to', 'later than');
  if (min !== undefined && max !== undefined && min > max)
    throw createReversedProblem('window_min_duration_ms', 'window_max_duration_ms', 'longer than');
  return omitUndefined({ fromNs: range, toNs, minDurationNs: min, maxDurationNs: max });
}

export interface WindowComparison extends FoundComparison {
  window: TimeRange;
  /** Whether the window was narrowed to the time of the box, because the requested window has too many events. */
  isNarrowed: boolean;
}

export async function* comparePopulation(
  store: Pick<Store, 'compare'>,
  { box, ...population }: ComparedPopulation,
  eventsMax = KEPT_EVENTS_MAX,
): AsyncGenerator<void, WindowComparison> {
  const request: ComparisonRequest = { box, eventsMax, ...population };
  const { fromNs, toNs } = population.filter;
  const whole = yield* store.compare(request);
  if (whole) return { ...whole, window: omitUndefined({ fromNs, toNs }), isNarrowed: false };
  const startNs = later(fromNs, box.fromNs);
  const endNs = earlier(toNs, box.toNs);
  // If the box is outside the window, there is nothing to compare, so the window becomes empty.
  const isOutside = startNs !== undefined && endNs !== undefined && endNs < startNs;
  const window = omitUndefined({ fromNs: startNs, toNs: isOutside ? startNs : endNs });
  const isNarrower = window.fromNs !== fromNs || window.toNs !== toNs;
  const found = isNarrower
    ? yield* store.compare({ ...request, filter: { ...population.filter, ...window } } as ComparisonRequest)
    : undefined;
  if (found) return { ...found, window, isNarrowed: true };
  const detail = `more than ${eventsMax} events would have to be read: ask for a box or a window of less time`;
  throw new Problem('too_many_events', detail);
}

function later(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a;
}

function earlier(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}
