/** What the time of the selected and of the others was spent on, in the mean: bars of one scale, and numbers. */
import { PARTS } from '../../lanes/breakdown.ts';
import type { Apart } from '../../map/questions.ts';
import { type Means, meansOf } from '../../map/time_spent.ts';
import { exactDuration, shortDuration } from '../../numbers/exact_times.ts';
import { PART_NAMES } from '../breakdown_bar.tsx';

export function WhereTimeWent({ apart: { answer, map } }: { apart: Apart }) {
  const [selected, others] = [meansOf(answer.selected), meansOf(answer.others)];
  const longestNs = selected.durationNs > others.durationNs ? selected.durationNs : others.durationNs;
  const shown = PARTS.filter((part) => selected.parts[part] > 0n || others.parts[part] > 0n);
  const atLeast = map.answer.coverage.complete ? '' : ', at least';
  return (
    <>
      <h2>Where the time went</h2>
      <Bar name="selected" means={selected} longestNs={longestNs} />
      <Bar name="others" means={others} longestNs={longestNs} />
      <table>
        <thead>
          <tr>
            <th scope="col">In the mean{atLeast}</th>
            <th scope="col" class="number">
              Selected
            </th>
            <th scope="col" class="number">
              Others
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((part) => (
            <tr key={part}>
              <th scope="row">
                <span class={`key ${part}`} aria-hidden="true" /> {PART_NAMES[part]}
              </th>
              <Time ns={selected.parts[part]} />
              <Time ns={others.parts[part]} />
            </tr>
          ))}
          <tr>
            <th scope="row">altogether</th>
            <Time ns={selected.durationNs} />
            <Time ns={others.durationNs} />
          </tr>
        </tbody>
      </table>
    </>
  );
}

function Bar({ name, means: { parts, durationNs }, longestNs }: { name: string; means: Means; longestNs: bigint }) {
  const share = longestNs === 0n ? 0 : Number(durationNs) / Number(longestNs);
  return (
    <div class="spent" aria-hidden="true">
      <span class="quiet">{name}</span>
      <div class="parts" style={{ width: `${share * 100}%` }}>
        {PARTS.map((part) => (
          <div key={part} class={`part ${part}`} style={{ flexGrow: Number(parts[part]) }} />
        ))}
      </div>
    </div>
  );
}

function Time({ ns }: { ns: bigint }) {
  return (
    <td class="number" title={exactDuration(ns)}>
      {shortDuration(ns)}
    </td>
  );
}
