/** `GET /api/transactions`: converts the URL's parameters to a request for a list of transactions. */
import { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import type { TransactionFilter, TransactionsRequest } from '../store/store.ts';
import { type CoverageDetail, coverageDetail } from './coverage_schema.ts';
import { computeFingerprint, decodeCursor, encodeCursor } from './cursor.ts';
import { buildValueFilter, CONDITION_LISTS, transactionValues } from './event_conditions.ts';
import { omitUndefined } from './omit_undefined.ts';
import * as parameter from './parameters.ts';
import { parseQuery, type Query } from './query_string.ts';
import { createReversedProblem, resolveTimeRange, type TimeRange } from './time_range.ts';

const LIMIT_MAX = 1000;
const LIMIT_DEFAULT = 100;

export const transactionsQuerySchema = z
  .strictObject({
    service: described(parameter.names, 'one of these services took part; a list'),
    node: described(parameter.hosts, 'one of these nodes took part; a list'),
    from: described(parameter.time, 'the first own event of the transaction began at or after this time'),
    to: described(parameter.time, 'the transaction began before this time'),
    ...transactionValues,
    q: described(
      parameter.text,
      'its id contains this text, whether its letters a to z are in upper or lower case; no character is a wildcard',
    ),
    min_duration_ms: described(parameter.milliseconds, 'minimum of its duration_ns, in decimal milliseconds'),
    max_duration_ms: described(parameter.milliseconds, 'maximum of its duration_ns, in decimal milliseconds'),
    has_error: described(parameter.boolean, 'whether any of its events failed'),
    sort: described(
      z.enum(['recent', 'slowest'], { error: 'must be recent or slowest' }),
      'recent sorts by start, slowest by duration, the largest first; recent unless given',
    ),
    limit: described(
      parameter.integer(1, LIMIT_MAX),
      `maximum number of transactions of a page, ${LIMIT_DEFAULT} unless given`,
    ),
    cursor: described(parameter.text, 'next_cursor of the previous page; the other parameters must stay the same'),
    coverage: coverageDetail,
  })
  .partial();

type TransactionsParameters = Omit<z.output<typeof transactionsQuerySchema>, 'sort' | 'limit' | 'cursor' | 'coverage'>;

function buildTransactionFilter(given: TransactionsParameters, nowNs: bigint): TransactionFilter {
  const { has_error: hasError, min_duration_ms: minDurationNs, max_duration_ms: maxDurationNs, q: idPart } = given;
  if (minDurationNs !== undefined && maxDurationNs !== undefined && minDurationNs > maxDurationNs)
    throw createReversedProblem('min_duration_ms', 'max_duration_ms', 'longer than');
  return omitUndefined({
    ...buildValueFilter(given),
    ...resolveTimeRange(given, nowNs),
    minDurationNs,
    maxDurationNs,
    hasError,
    idPart,
  });
}

export const transactionQuerySchema = z.strictObject({ coverage: coverageDetail }).partial();

export const SUMMARY_LIMIT_DEFAULT = 20;

export const summaryQuerySchema = z
  .strictObject({
    limit: described(
      parameter.integer(1, LIMIT_MAX),
      `maximum number of calls and of files, ${SUMMARY_LIMIT_DEFAULT} unless given`,
    ),
    coverage: coverageDetail,
  })
  .partial();

const SLOWEST_DEFAULT = 5;

export const explanationQuerySchema = z
  .strictObject({
    limit: described(
      parameter.integer(1, LIMIT_MAX),
      `maximum number of calls in \`slowest\`, ${SLOWEST_DEFAULT} unless given`,
    ),
    from: described(parameter.time, 'explain only events that began at or after this time'),
    to: described(parameter.time, 'explain only events that began before this time'),
    coverage: coverageDetail,
  })
  .partial();

export interface ExplanationQuery extends TimeRange {
  limit: number;
  detail: CoverageDetail | undefined;
}

export function parseExplanationQuery(query: Query, nowNs: bigint): ExplanationQuery {
  const { limit = SLOWEST_DEFAULT, coverage: detail, ...range } = parseQuery(query, explanationQuerySchema);
  return { limit, detail, ...resolveTimeRange(range, nowNs) };
}

export interface TransactionsQuery {
  request: TransactionsRequest;
  detail: CoverageDetail | undefined;
  /** The time to which relative times refer. */
  nowNs: bigint;
  /** Encodes a position in this list of transactions as a cursor. */
  encodePlace(place: NonNullable<TransactionsRequest['after']>): string;
}

export function parseTransactionsQuery(query: Query, nowNs: bigint): TransactionsQuery {
  const parameters = parseQuery(query, transactionsQuerySchema);
  const { cursor, sort = 'recent', limit = LIMIT_DEFAULT, coverage: detail, ...given } = parameters;
  // The extra name makes the fingerprint differ from the fingerprints of event queries.
  const queryFingerprint = computeFingerprint({ ...query, 'a list of': 'transactions' }, CONDITION_LISTS);
  const place = cursor === undefined ? undefined : decodeCursor(cursor, queryFingerprint);
  const queryNowNs = place?.nowNs ?? nowNs;
  const filter = buildTransactionFilter(given, queryNowNs);
  return {
    request: {
      filter,
      sort,
      limit,
      ...(place && { after: { value: place.key.timestamp_ns, transactionId: place.key.event_id } }),
    },
    detail,
    nowNs: queryNowNs,
    encodePlace: ({ value, transactionId }) =>
      encodeCursor({ key: { timestamp_ns: value, event_id: transactionId }, nowNs: queryNowNs }, queryFingerprint),
  };
}
