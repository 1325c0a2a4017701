/** Metrics of a fleet, for a daemon that serves one: sums over all nodes, none for each of them. */
import { Gauge, Histogram, type Registry } from '@prometheus-io/client';
import { type FleetState, LAG_QUANTILES } from '../store/fleet_state.ts';

const QUERY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export function fleetMetrics(registry: Registry) {
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name: `kreplay_fleet_${name}`, help, labelNames, registers: [registry] });
  const nodes = gauge(
    'nodes',
    'Nodes by state: current (heard within a minute), silent (not heard since), ended (ended, or silent for an hour).',
    'state',
  );
  const lag = lagSummary(registry);
  const shards = gauge('unavailable_shards', 'At least so many shards do not answer.');
  const parts = gauge(
    'parts_max',
    'The most parts that an hour of a table has at the server that answers; servers delay inserts at 1000, and refuse them at 3000 (18.16: 150, 300).',
  );
  const disk = gauge(
    'disk_free_ratio',
    'Free part of the fullest disk of the server that answers; not there with 18.16, which does not say.',
  );
  const oldest = gauge(
    'oldest_timestamp_seconds',
    'Start of the oldest hour with events at the server that answers; not there without events.',
  );
  const queries = new Histogram({
    name: 'kreplay_fleet_query_duration_seconds',
    help: 'How long the server took for statements of this daemon, without those that copy transactions for replays.',
    buckets: QUERY_SECONDS,
    registers: [registry],
  });
  // The library resets a metric without labels to 0, which is a value here.
  const single = [shards, parts, disk, oldest];
  return {
    queried: (seconds: number): void => queries.observe(seconds),
    /** Undefined: the server does not answer, or this daemon serves no fleet. */
    set(state: FleetState | undefined): void {
      nodes.reset();
      for (const metric of single) metric.remove();
      lag.set(state?.nodes?.lagNs ?? []);
      if (!state) return;
      for (const [name, count] of Object.entries(state.nodes?.counts ?? {})) nodes.set({ state: name }, count);
      shards.set(state.unavailableShards);
      parts.set(state.partsMax);
      if (state.oldestNs !== undefined) oldest.set(Number(state.oldestNs) / 1e9);
      if (state.diskFreeRatio !== undefined) disk.set(state.diskFreeRatio);
    },
  };
}

/** Quantiles over nodes that the server computed; the library computes them over time. */
function lagSummary(registry: Registry) {
  const name = 'kreplay_fleet_lag_seconds';
  const help = 'How far the events of current nodes are behind their clocks, as a quantile over these nodes.';
  let values: { labels: { quantile: string }; value: number }[] = [];
  registry.registerMetric({
    name,
    help,
    labelNames: ['quantile'],
    get: async () => ({ name, help, type: 'summary', values }),
  } as never);
  return {
    set(lagNs: readonly bigint[]): void {
      values = lagNs.map((ns, i) => ({ labels: { quantile: LAG_QUANTILES[i]! }, value: Number(ns) / 1e9 }));
    },
  };
}
