/** The map as a table: a row for each cell that has something, with exact edges. */
import { useEffect, useState } from 'preact/hooks';
import { boxOfCells, cellBoxOf } from '../../map/box.ts';
import type { LatencyMap, Selection } from '../../map/questions.ts';
import type { MapCell } from '../../map/scale.ts';
import { exactDuration, grouped } from '../../numbers/exact_times.ts';
import { clockText } from '../../numbers/wall_clock.ts';

interface Props {
  map: LatencyMap;
  selection: Selection | null;
}

const PAGE_ROWS = 200;

export function MapTable({ map, selection }: Props) {
  const { cells, scale, answer } = map;
  const [page, setPage] = useState(0);
  useEffect(() => setPage(0), [map]);
  const [from, to] = [page * PAGE_ROWS, Math.min((page + 1) * PAGE_ROWS, cells.length)];
  const box = selection && selection.kind !== 'failed' ? cellBoxOf(scale, selection.box) : null;
  const isSelected = ({ column, band, failed }: MapCell) =>
    selection !== null &&
    (!selection.isFailed || failed > 0) &&
    (!box || (column + 1 > box.left && column < box.right && band + 1 > box.bottom && band < box.top));
  const count = answer.coverage.complete ? 'Count' : 'Count, at least';
  return (
    <>
      {cells.length > PAGE_ROWS && (
        <p class="controls">
          <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
            Before
          </button>
          <span>
            rows {grouped(from + 1)} to {grouped(to)} of {grouped(cells.length)}
          </span>
          <button type="button" disabled={to === cells.length} onClick={() => setPage(page + 1)}>
            After
          </button>
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <section class="rows" tabIndex={0} aria-label="Cells of the map">
        <table aria-rowcount={cells.length + 1}>
          <thead>
            <tr aria-rowindex={1}>
              {['Start (UTC)', 'Duration from', 'to before', count, 'Failed', 'Selected'].map((heading) => (
                <th scope="col" key={heading}>
                  {heading}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {cells.slice(from, to).map((cell, at) => (
              <tr
                key={`${cell.column} ${cell.band}`}
                aria-rowindex={from + at + 2}
                class={isSelected(cell) ? 'selected' : undefined}
              >
                <CellTexts map={map} cell={cell} isSelected={isSelected(cell)} />
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

function CellTexts({ map: { scale }, cell, isSelected }: { map: LatencyMap; cell: MapCell; isSelected: boolean }) {
  const { column, band, count, failed } = cell;
  const box = boxOfCells(scale, { left: column, right: column + 1, bottom: band, top: band + 1 });
  const end = box.box_max === null ? 'any' : exactDuration(box.box_max + 1n);
  const texts = [
    clockText(box.box_from!),
    ...[exactDuration(box.box_min!), end, grouped(count), grouped(failed), isSelected ? '✓' : ''],
  ];
  return (
    <>
      {texts.map((text, at) => (
        <td key={at} class="digits">
          {text}
        </td>
      ))}
    </>
  );
}
