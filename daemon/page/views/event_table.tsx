/** Shows all events of a picture as a table; the document contains only the visible rows. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { LanesModel } from '../../model/lanes/model.ts';
import { groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import { createEventTable, HEADINGS, orderOwnFirst, PAGE_ROWS } from '../table/rows.ts';
import { useKeys } from './keys.ts';

interface Props {
  model: LanesModel;
  selected: number;
  onSelect: (row: number) => void;
}

const DOWN: ReadonlyMap<string, number> = new Map([
  ['ArrowDown', 1],
  ['ArrowUp', -1],
]);
const RIGHT: ReadonlyMap<string, number> = new Map([
  ['ArrowRight', 1],
  ['ArrowLeft', -1],
]);
const ROW_PX = 26;
/** Number of rows above and below the visible rows that the document also contains. */
const MARGIN = 10;

export function EventTable({ model, selected, onSelect }: Props) {
  const table = useMemo(
    () => createEventTable(model.columns, BigInt(model.firstNs), orderOwnFirst(model.shares)),
    [model],
  );
  const scroller = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState<readonly [number, number]>([0, 40]);
  const line = selected < 0 ? -1 : table.findLine(selected);
  const [page, setPage] = useState(() => Math.floor(Math.max(line, 0) / PAGE_ROWS));
  const [from, to] = table.computePageLines(page);
  /** Keys may come faster than effects, so each key continues from the result of the previous key. */
  const latest = useRef({ line, from, to });
  latest.current = { line, from, to };

  useEffect(() => {
    if (line >= 0) setPage(Math.floor(line / PAGE_ROWS));
  }, [line]);
  useLayoutEffect(() => {
    if (line < from || line >= to || !scroller.current) return;
    const top = (line - from) * ROW_PX;
    const { scrollTop, clientHeight } = scroller.current;
    if (top < scrollTop || top > scrollTop + clientHeight - 3 * ROW_PX) scroller.current.scrollTop = top - 3 * ROW_PX;
  }, [line, from, to]);
  const readScroll = () => {
    const { scrollTop, clientHeight } = scroller.current!;
    const first = Math.max(Math.floor(scrollTop / ROW_PX) - MARGIN, 0);
    setSeen([first, Math.ceil((scrollTop + clientHeight) / ROW_PX) + MARGIN]);
  };
  useLayoutEffect(() => {
    // A page that does not contain the selected row is shown from its first row.
    if (line < from || line >= to) scroller.current!.scrollTop = 0;
    readScroll();
  }, [page]);

  useKeys((key, target) => {
    if (target.matches('input[type=range]')) return false;
    // Left and right arrows scroll sideways while the focus is within the table.
    const by = (scroller.current!.contains(target) ? DOWN : RIGHT).get(key);
    if (by === undefined) return false;
    const now = latest.current;
    const isOnPage = now.line >= now.from && now.line < now.to;
    const next = isOnPage ? now.line + by : now.from + Math.ceil(scroller.current!.scrollTop / ROW_PX);
    if (next >= 0 && next < table.rowCount) {
      now.line = next;
      onSelect(table.getRow(next));
    }
    return true;
  });

  const first = from + seen[0];
  const last = Math.min(from + seen[1], to);
  const lines = Array.from({ length: Math.max(last - first, 0) }, (_, at) => first + at);
  return (
    <>
      {table.pageCount > 1 && (
        <p class="controls">
          <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
            Before
          </button>
          <span>
            rows {groupDigits(from + 1)} to {groupDigits(to)} of {groupDigits(table.rowCount)}
          </span>
          <button type="button" disabled={page === table.pageCount - 1} onClick={() => setPage(page + 1)}>
            After
          </button>
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must reach a section that scrolls */}
      <section ref={scroller} class="rows" onScroll={readScroll} tabIndex={0} aria-label="Events">
        <table aria-rowcount={table.rowCount + 1}>
          <thead>
            <tr aria-rowindex={1}>
              {HEADINGS.map((heading) => (
                <th scope="col" key={heading}>
                  {heading}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr style={{ height: `${(first - from) * ROW_PX}px` }} />
            {lines.map((at) => (
              <tr
                key={at}
                aria-rowindex={at + 2}
                aria-selected={at === line}
                class={at === line ? 'selected' : undefined}
                onClick={() => onSelect(table.getRow(at))}
              >
                {table.formatLine(at).map((cell, column) => (
                  <td key={HEADINGS[column]} class="digits">
                    {cell === '' ? '' : formatName(cell)}
                  </td>
                ))}
              </tr>
            ))}
            <tr style={{ height: `${(to - last) * ROW_PX}px` }} />
          </tbody>
        </table>
      </section>
    </>
  );
}
