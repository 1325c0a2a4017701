/** What the agent beside the daemon costs, and how close it came to losing events. */
import { metricSums } from '../../feed/metrics.ts';
import { bytesText, percentText } from '../../numbers/amounts.ts';
import { grouped } from '../../numbers/exact_times.ts';

/** `metrics` are the daemon's, in Prometheus' text; nothing is shown while no agent answers it. */
export function AgentCost({ metrics }: { metrics: string }) {
  const sums = metricSums(metrics);
  const [start, cpu, memory, ringSize, ringPeak] = [
    'kreplay_agent_start_time_seconds',
    'kreplay_agent_cpu_seconds_total',
    'kreplay_agent_resident_memory_bytes',
    'kreplay_agent_ring_size_bytes',
    'kreplay_agent_ring_peak_bytes',
  ].map((name) => sums.get(name));
  if (start === undefined || cpu === undefined || memory === undefined) return null;
  const seconds = Math.max(1, Date.now() / 1000 - start);
  const rows: [string, string][] = [
    ['CPU since its start', `${percentText(cpu / seconds)} of one`],
    ['Memory', bytesText(memory)],
  ];
  if (ringSize && ringPeak !== undefined)
    rows.push(['Event ring in the last minute', `${percentText(ringPeak / ringSize)} full at most`]);
  const recorded = sums.get('kreplay_events_recorded_total');
  if (recorded !== undefined) rows.push(['Events recorded', grouped(recorded)]);
  return (
    <section class="panel">
      <h2>Cost of the agent</h2>
      <dl class="legend">
        {rows.map(([name, text]) => (
          <div class="pair" key={name}>
            <dt class="quiet">{name}</dt>
            <dd class="digits">{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
