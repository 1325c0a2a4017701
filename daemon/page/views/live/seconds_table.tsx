/** What the map of the last minute shows, second by second. */
import { useRef, useState } from 'preact/hooks';
import { type Second, secondsOf } from '../../live/seconds.ts';
import { minuteOf, type Tail } from '../../live/tail.ts';
import { grouped, shortDuration } from '../../numbers/exact_times.ts';
import { clockText } from '../../numbers/wall_clock.ts';
import { ScrolledRows } from '../scrolled_rows.tsx';

const HEADINGS = [
  { name: 'Second (UTC)' },
  ...['Events', 'Failed', 'Longest'].map((name) => ({ name, isNumber: true })),
  { name: 'Recorded' },
];

export function SecondsTable({ tail }: { tail: Tail }) {
  const [isHeld, setIsHeld] = useState(false);
  const shown = useRef<Second[]>([]);
  const minute = minuteOf(tail);
  if (minute && (!isHeld || shown.current.length === 0)) shown.current = secondsOf(minute);
  return (
    <ScrolledRows
      label="Events of the last minute, second by second"
      headings={HEADINGS}
      rowCount={shown.current.length}
      row={(at) => <Cells second={shown.current[at]!} />}
      rowClass={(at) => (shown.current[at]!.isLost ? 'lost' : undefined)}
      onVisit={setIsHeld}
    />
  );
}

function Cells({ second: { startNs, count, failed, longestNs, isLost } }: { second: Second }) {
  const atLeast = isLost ? 'at least ' : '';
  return (
    <>
      <td class="digits">{clockText(startNs).slice(0, 23)}</td>
      <td class="number">{atLeast + grouped(count)}</td>
      <td class="number">{failed > 0 ? `✕ ${atLeast}${grouped(failed)}` : `${atLeast}0`}</td>
      <td class="number">{longestNs === null ? '' : shortDuration(longestNs)}</td>
      <td>{isLost ? '▲ not all' : '✓'}</td>
    </>
  );
}
