/** The questions that stores are asked in analytics.bench.ts, and their answers. */

export interface AnalyticsRequest {
  path: string;
  /** Folder with the package of DuckDB; only for that side. */
  packages?: string;
  transaction: string;
}

export const QUESTIONS = {
  count_pid: 'count, no pid matches: ns an event',
  count_duration: 'count by duration: ns an event',
  count_service: 'count by service: ns an event',
  rows_duration: 'the same by duration, rows out in order: ns an event',
  rows_service: 'the same by service, rows out in order: ns an event',
  sums: 'count, sum and p99 by service and type: ns an event',
  slowest: 'the 20 slowest of all: us',
  transaction: 'a transaction of 100 events: us',
} as const;

export type Question = keyof typeof QUESTIONS;

export type AnalyticsSide = 'kreplay' | 'row_each' | 'duckdb';

export interface Answered {
  /** Median of a few times, warm. */
  ns: number;
  found: number;
}
