/** A table that keeps only the visible rows in the document. */
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Heading {
  name: string;
  isNumber?: boolean;
}

interface Props {
  label: string;
  headings: readonly Heading[];
  rowCount: number;
  /** Returns the cells of a row, as table cells. */
  row: (at: number) => ComponentChildren;
  rowClass?: (at: number) => string | undefined;
  /** Called when the pointer or the focus enters the rows, and when it leaves them. */
  onVisit?: (isVisited: boolean) => void;
}

const ROW_PX = 26;
/** Number of rows above and below the visible rows that the document also contains. */
const MARGIN = 10;

export function ScrolledRows({ label, headings, rowCount, row, rowClass, onVisit }: Props) {
  const scroller = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState<readonly [number, number]>([0, 30]);
  const visits = useRef({ pointer: false, focus: false });
  const readScroll = () => {
    const { scrollTop, clientHeight } = scroller.current!;
    const first = Math.max(Math.floor(scrollTop / ROW_PX) - MARGIN, 0);
    setSeen([first, Math.ceil((scrollTop + clientHeight) / ROW_PX) + MARGIN]);
  };
  useLayoutEffect(readScroll, [rowCount]);
  const visit = (change: Partial<typeof visits.current>) => {
    Object.assign(visits.current, change);
    onVisit?.(visits.current.pointer || visits.current.focus);
  };
  const first = Math.min(seen[0], rowCount);
  const last = Math.min(seen[1], rowCount);
  return (
    <section
      ref={scroller}
      class="rows"
      onScroll={readScroll}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
      tabIndex={0}
      aria-label={label}
      onPointerEnter={() => visit({ pointer: true })}
      onPointerLeave={() => visit({ pointer: false })}
      onFocusIn={() => visit({ focus: true })}
      onFocusOut={({ relatedTarget, currentTarget }) =>
        visit({ focus: currentTarget.contains(relatedTarget as Node | null) })
      }
    >
      <table aria-rowcount={rowCount + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {headings.map(({ name, isNumber }) => (
              <th scope="col" key={name} class={isNumber ? 'number' : undefined}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr style={{ height: `${first * ROW_PX}px` }} />
          {Array.from({ length: last - first }, (_, index) => first + index).map((at) => (
            <tr key={at - first} aria-rowindex={at + 2} class={rowClass?.(at)}>
              {row(at)}
            </tr>
          ))}
          <tr style={{ height: `${(rowCount - last) * ROW_PX}px` }} />
        </tbody>
      </table>
    </section>
  );
}
