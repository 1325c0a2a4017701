/** What the time of two transactions was spent on: bars on one scale, and the parts as numbers. */
import { type Breakdown, PARTS } from '../../lanes/breakdown.ts';
import { exactDuration, shortDuration } from '../../numbers/exact_times.ts';
import { PART_NAMES } from '../breakdown_bar.tsx';
import { signed } from './sums_table.tsx';

interface Props {
  a: Breakdown;
  b: Breakdown;
}

export function TwoBars({ a, b }: Props) {
  const longest = Math.max(a.durationNs, b.durationNs, 1);
  const shown = PARTS.filter((part) => a.parts[part] > 0 || b.parts[part] > 0);
  const cell = (ns: number) => <span title={exactDuration(BigInt(ns))}>{shortDuration(ns)}</span>;
  return (
    <section class="panel wide">
      <h2>Where the time went</h2>
      {[a, b].map(({ parts, durationNs }, side) => (
        <div key={SIDES[side]} class="side" aria-hidden="true">
          {SIDES[side]}
          <div class="parts" style={{ width: `${(durationNs / longest) * 100}%` }}>
            {shown.map((part) => (
              <div key={part} class={`part ${part}`} style={{ flexGrow: parts[part] }} />
            ))}
          </div>
        </div>
      ))}
      <table>
        <thead>
          <tr>
            <th scope="col">Part</th>
            {['A', 'B', 'Change'].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((part) => (
            <tr key={part}>
              <th scope="row">
                <span class={`key ${part}`} aria-hidden="true" /> {PART_NAMES[part]}
              </th>
              <td class="number">{cell(a.parts[part])}</td>
              <td class="number">{cell(b.parts[part])}</td>
              <td class="number">{signed(b.parts[part] - a.parts[part])}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">altogether</th>
            <td class="number">{cell(a.durationNs)}</td>
            <td class="number">{cell(b.durationNs)}</td>
            <td class="number">{signed(b.durationNs - a.durationNs)}</td>
          </tr>
        </tbody>
      </table>
    </section>
  );
}

const SIDES = ['A', 'B'];
