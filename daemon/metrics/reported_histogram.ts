/** A histogram that another process has counted. The histograms of the Prometheus client do the counting themselves. */
import type { Registry } from '@prometheus-io/client';
import type { AskedDurations } from './asked_socket.ts';

export interface ReportedHistogram {
  /** Sets the series of a node. A node without durations gets no series. */
  set(node: string, durations: AskedDurations | undefined): void;
}

export function createReportedHistogram(registry: Registry, name: string, help: string): ReportedHistogram {
  let values: { metricName: string; labels: Record<string, string | number>; value: number }[] = [];
  registry.registerMetric({
    name,
    help,
    labelNames: ['node'],
    get: async () => ({ name, help, type: 'histogram', values }),
  } as never);
  return {
    set(node, durations) {
      if (!durations) {
        values = [];
        return;
      }
      let total = 0;
      const buckets = durations.counts.map((count, i) => {
        total += count;
        const le = durations.bounds_seconds[i] ?? '+Inf';
        return { metricName: `${name}_bucket`, labels: { node, le }, value: total };
      });
      values = [
        ...buckets,
        { metricName: `${name}_sum`, labels: { node }, value: durations.sum_seconds },
        { metricName: `${name}_count`, labels: { node }, value: total },
      ];
    },
  };
}
