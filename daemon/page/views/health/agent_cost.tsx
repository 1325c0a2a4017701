/** What the agent beside the daemon costs, and how close it came to losing events. */
import { agentCost } from '../../feed/metrics.ts';
import { bytesText, percentText } from '../../numbers/amounts.ts';
import { grouped } from '../../numbers/exact_times.ts';

/** `metrics` are the daemon's, in Prometheus' text. */
export function AgentCost({ metrics }: { metrics: string }) {
  const cost = agentCost(metrics, Date.now());
  if (!cost) return null;
  const rows: [string, string][] = [
    ['CPU since its start', `${percentText(cost.cpu)} of one`],
    ['Memory', bytesText(cost.memoryBytes)],
  ];
  if (cost.ringPeak !== null)
    rows.push(['Event ring in the last minute', `${percentText(cost.ringPeak)} full at most`]);
  if (cost.recordedCount !== null) rows.push(['Events recorded', grouped(cost.recordedCount)]);
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
