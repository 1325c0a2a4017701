/** Shows two durations and their parts, as bars on a common scale and as numbers. */
import { type BreakdownPart, PARTS } from '../../model/lanes/breakdown.ts';
import { formatExactDuration, formatShortDuration } from '../../model/wording/exact_times.ts';
import { PART_NAMES } from './breakdown_bar.tsx';
import { Table } from './table.tsx';

export interface SpentTime {
  name: string;
  durationNs: number | bigint;
  parts: Readonly<Record<BreakdownPart, number | bigint>>;
}

interface Props {
  /** Heading of the column with the names of the parts. */
  heading: string;
  sides: readonly [SpentTime, SpentTime];
  /** Whether a column shows the differences. */
  hasChange?: boolean;
}

export function TimeSpent({ heading, sides, hasChange = false }: Props) {
  const longest = Math.max(...sides.map(({ durationNs }) => Number(durationNs)), 1);
  const shown = PARTS.filter((part) => sides.some(({ parts }) => parts[part] > 0));
  const renderCells = (getNs: (side: SpentTime) => number | bigint) => (
    <>
      {sides.map((side) => {
        const ns = BigInt(getNs(side));
        return (
          <td key={side.name} class="number" title={formatExactDuration(ns)}>
            {formatShortDuration(ns)}
          </td>
        );
      })}
      {hasChange && <td class="number">{formatSignedDuration(BigInt(getNs(sides[1])) - BigInt(getNs(sides[0])))}</td>}
    </>
  );
  return (
    <>
      <h2>Where the time went</h2>
      {sides.map(({ name, parts, durationNs }) => (
        <div key={name} class="spent" aria-hidden="true">
          <span class="quiet">{name}</span>
          <div class="parts" style={{ width: `${(Number(durationNs) / longest) * 100}%` }}>
            {shown.map((part) => (
              <div key={part} class={`part ${part}`} style={{ flexGrow: Number(parts[part]) }} />
            ))}
          </div>
        </div>
      ))}
      <Table
        headings={[
          heading,
          ...sides.map(({ name }) => [name, 'number'] as const),
          ...(hasChange ? [['Change', 'number'] as const] : []),
        ]}
      >
        {shown.map((part) => (
          <tr key={part}>
            <th scope="row">
              <span class={`key ${part}`} aria-hidden="true" /> {PART_NAMES[part]}
            </th>
            {renderCells(({ parts }) => parts[part])}
          </tr>
        ))}
        <tr>
          <th scope="row">altogether</th>
          {renderCells(({ durationNs }) => durationNs)}
        </tr>
      </Table>
    </>
  );
}

/** Formats a duration with its sign, such as `+3.20 ms`. */
export function formatSignedDuration(ns: bigint | number): string {
  return `${ns > 0 ? '+' : ''}${formatShortDuration(ns)}`;
}
