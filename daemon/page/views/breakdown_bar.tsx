/** Shows the parts of a transaction's time as a bar, and as numbers that add up to the whole. */
import { type Breakdown, type BreakdownPart, PARTS } from '../../model/lanes/breakdown.ts';
import { percentText } from '../../model/wording/amounts.ts';
import { formatExactDuration, formatShortDuration } from '../../model/wording/exact_times.ts';

export const PART_NAMES: Readonly<Record<BreakdownPart, string>> = {
  queue: 'waiting in the queue of a device',
  service: 'a device working on its requests',
  sync: 'rest of its syncs',
  write: 'rest of its writes',
  request: 'requests outside its calls, waited for or not',
  untraced: 'on a CPU, or not recorded',
};

export function BreakdownBar({ breakdown: { parts, durationNs } }: { breakdown: Breakdown }) {
  const shown = PARTS.filter((part) => parts[part] > 0);
  const share = (part: BreakdownPart) => (durationNs === 0 ? 0 : parts[part] / durationNs);
  return (
    <section class="panel">
      <h2>Where the time went</h2>
      <div class="parts" aria-hidden="true">
        {shown.map((part) => (
          <div key={part} class={`part ${part}`} style={{ flexGrow: parts[part] }} />
        ))}
      </div>
      <dl class="legend">
        {shown.map((part) => (
          <div key={part} class="pair">
            <dt>
              <span class={`key ${part}`} aria-hidden="true" /> {PART_NAMES[part]}
            </dt>
            <dd class="digits" title={formatExactDuration(BigInt(parts[part]))}>
              {percentText(share(part))}, {formatShortDuration(parts[part])}
            </dd>
          </div>
        ))}
        <div class="pair">
          <dt>altogether</dt>
          <dd class="digits">{formatExactDuration(BigInt(durationNs))}</dd>
        </div>
      </dl>
    </section>
  );
}
