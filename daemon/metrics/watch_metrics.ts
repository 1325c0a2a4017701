/**
 * The metrics of `kreplay watch`, at its own address. No label has a value that a program or a client chose, which
 * limits the number of series.
 */
import { Counter, Gauge, Registry } from '@prometheus-io/client';
import type { MetricDescription } from './metrics.ts';
import {
  DROP_REASONS,
  type DropReason,
  FAILED_STEPS,
  type FailedStep,
  MISS_REASONS,
  type MissReason,
  type WatchCounters,
} from './watch_counters.ts';

/** Numbers of due pins, bundles and deliveries, and number and size of the stored bundles. */
export interface WatchGauges {
  pinsDue: number;
  bundlesDue: number;
  bundles: number;
  bundleBytes: number;
  deliveriesDue: number;
}

export interface WatchMetrics {
  readonly contentType: string;
  collectText(counters: WatchCounters, gauges: WatchGauges): Promise<string>;
  describeMetrics(): MetricDescription[];
}

const listMeanings = (words: Readonly<Record<string, string>>) =>
  Object.entries(words)
    .map(([word, meaning]) => `${word} (${meaning})`)
    .join(', ');

export function createWatchMetrics(): WatchMetrics {
  const registry = new Registry();
  const registers = [registry];
  const createCounter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `kreplay_watch_${name}`, help, labelNames, registers });
  const createGauge = (name: string, help: string) => new Gauge({ name: `kreplay_watch_${name}`, help, registers });
  const matches = createCounter(
    'matches_total',
    'Transactions that were kept, by rule; alert for those of alerts.',
    'rule',
  );
  const dropped = createCounter(
    'dropped_total',
    `Matches that were not kept: ${listMeanings(DROP_REASONS)}.`,
    'reason',
  );
  const failures = createCounter(
    'failures_total',
    `Steps that failed and are tried again: ${listMeanings(FAILED_STEPS)}.`,
    'step',
  );
  const sums = {
    pinned: createCounter('pins_total', 'Transactions that were pinned.'),
    gone: createCounter('gone_total', 'Transactions that were gone from the recording before they were pinned.'),
    bundlesWritten: createCounter('bundles_written_total', 'Bundles that were written, again or for the first time.'),
    bundlesRemoved: createCounter('bundles_removed_total', 'Bundles that made room for newer ones.'),
    delivered: createCounter('deliveries_total', 'Deliveries that the webhook took.'),
    givenUp: createCounter('deliveries_given_up_total', 'Deliveries that failed for too long.'),
  };
  const missed = createCounter(
    'missed_events_total',
    `Events that were not examined: ${listMeanings(MISS_REASONS)}.`,
    'reason',
  );
  const values = {
    pinsDue: createGauge('pins_due', 'Transactions that wait for their pin.'),
    bundlesDue: createGauge('bundles_due', 'Transactions that wait for their bundle.'),
    bundles: createGauge('bundles', 'Bundles in the folder.'),
    bundleBytes: createGauge('bundle_bytes', 'Size of the bundles in the folder.'),
    deliveriesDue: createGauge('deliveries_due', 'Deliveries that wait for the webhook.'),
  };
  const behind = createGauge('behind_events', 'Recorded events that are not examined yet.');
  return {
    contentType: registry.contentType,
    describeMetrics: () => registry.getMetricsAsArray() as unknown as MetricDescription[],
    async collectText(counters, gauges) {
      for (const metric of [matches, dropped, failures, missed, ...Object.values(sums)]) metric.reset();
      for (const [rule, count] of counters.matches) matches.inc({ rule }, count);
      for (const reason of Object.keys(DROP_REASONS) as DropReason[]) dropped.inc({ reason }, counters.dropped[reason]);
      for (const step of Object.keys(FAILED_STEPS) as FailedStep[]) failures.inc({ step }, counters.failures[step]);
      for (const reason of Object.keys(MISS_REASONS) as MissReason[])
        missed.inc({ reason }, counters.missedEvents[reason]);
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name].inc(counters[name]);
      for (const name of Object.keys(values) as (keyof typeof values)[]) values[name].set(gauges[name]);
      behind.set(counters.behindEvents);
      return registry.metrics();
    },
  };
}
