/** Parses the parts of Prometheus' text format that the page needs. */

/** Matches a sample: a name, labels whose quoted texts may have any character, and a value. */
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})? (\S+)/;

/**
 * Returns the sum of each metric over its labels, by the metric's name. The map has no entry for a metric that the
 * text does not contain.
 */
export function parseMetricSums(text: string): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name, value] = SAMPLE.exec(line) ?? [];
    const number = Number(value);
    if (name !== undefined && Number.isFinite(number)) sums.set(name, (sums.get(name) ?? 0) + number);
  }
  return sums;
}

export interface AgentCost {
  /** Mean share of one CPU that the agent has used since its start. */
  cpu: number;
  memoryBytes: number;
  /** The largest share of the event ring that was in use during the last minute; null if unknown. */
  ringPeak: number | null;
  recordedCount: number | null;
}

/** Returns the costs of the daemon's agent, and how full its event ring was; null if the metrics contain no agent. */
export function computeAgentCost(metrics: string, nowMs: number): AgentCost | null {
  const sums = parseMetricSums(metrics);
  const getMetric = (name: string) => sums.get(`kreplay_${name}`) ?? null;
  const [start, cpu, memoryBytes] = [
    getMetric('agent_start_time_seconds'),
    getMetric('agent_cpu_seconds_total'),
    getMetric('agent_resident_memory_bytes'),
  ];
  if (start === null || cpu === null || memoryBytes === null) return null;
  const peak = getMetric('agent_ring_peak_bytes');
  const size = getMetric('agent_ring_size_bytes');
  return {
    cpu: cpu / Math.max(1, nowMs / 1000 - start),
    memoryBytes,
    ringPeak: peak === null || !size ? null : peak / size,
    recordedCount: getMetric('events_recorded_total'),
  };
}
