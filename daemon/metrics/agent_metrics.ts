/**
 * Metrics that the agent of the data folder reports. Its counts start at 0 with the agent; without an agent there are
 * none.
 */
import { Counter, Gauge, type Registry } from '@prometheus-io/client';
import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import { LOSS_CAUSES } from '../../bpf/schema/losses.ts';
import { reportedHistogram } from './reported_histogram.ts';

/** Type label of a lost definition, or of lost events of any type. */
const ANY_TYPE = 'any';

export function agentMetrics(registry: Registry) {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, labelNames: ['node'], registers });
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames: ['node', ...labelNames], registers });
  const up = new Gauge({
    name: 'kreplay_agent_up',
    help: '1 when the agent of the data folder answers.',
    registers,
  });
  const startTime = gauge('kreplay_agent_start_time_seconds', 'When the agent started.');
  const cpu = counter('kreplay_agent_cpu_seconds_total', 'CPU time of the agent.');
  const memory = gauge('kreplay_agent_resident_memory_bytes', 'Memory that the agent holds.');
  const ringSize = gauge('kreplay_agent_ring_size_bytes', 'What the event ring can hold; --ring-size.');
  const ringPending = gauge('kreplay_agent_ring_pending_bytes', 'What waits in the event ring just now.');
  const ringPeak = gauge('kreplay_agent_ring_peak_bytes', 'The most that waited in the event ring in the last minute.');
  const unsynced = gauge(
    'kreplay_agent_unsynced_seconds',
    'Age of the oldest commit that is not known to be on the disk: a loss of power takes what came since.',
  );
  const recorded = counter('kreplay_events_recorded_total', 'Events that were recorded, by type.', 'event_type');
  const lost = counter(
    'kreplay_events_lost_total',
    'Events and definitions that were lost, by cause and, where it is known, type.',
    ...['cause', 'event_type'],
  );
  const commits = reportedHistogram(
    registry,
    'kreplay_agent_commit_duration_seconds',
    'How long the agent took to commit what it had gathered to the recording.',
  );
  const all = [up, startTime, cpu, memory, ringSize, ringPending, ringPeak, unsynced, recorded, lost];
  return {
    set(report: AgentReport | undefined): void {
      for (const metric of all) metric.reset();
      commits.set(report?.node ?? '', report?.commits);
      if (!report) return;
      const { node, ring } = report;
      up.set(1);
      startTime.set({ node }, report.start_time_seconds);
      cpu.inc({ node }, report.cpu_seconds);
      memory.set({ node }, report.resident_bytes);
      ringSize.set({ node }, ring.size_bytes);
      ringPending.set({ node }, ring.pending_bytes);
      ringPeak.set({ node }, ring.peak_bytes);
      if (report.unsynced_seconds !== undefined) unsynced.set({ node }, report.unsynced_seconds);
      for (const [event_type, count] of Object.entries(report.recorded)) recorded.inc({ node, event_type }, count);
      // If a series began with its first loss, increase() would not show that loss.
      for (const cause of Object.keys(LOSS_CAUSES))
        for (const event_type of [ANY_TYPE, ...EVENTS.map(({ name }) => name)])
          lost.inc({ node, cause, event_type }, 0);
      for (const { cause, event_type, count } of report.lost)
        lost.inc({ node, cause, event_type: event_type ?? ANY_TYPE }, count);
    },
  };
}
