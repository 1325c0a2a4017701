/** The newest events as rows, which stay where they are while somebody reads them. */
import { useRef, useState } from 'preact/hooks';
import { NEWEST_MAX, type NewestRow } from '../../live/newest.ts';
import { LIVE_HEADINGS, type RowTexts, rowTexts } from '../../live/row_cells.ts';
import type { Tail } from '../../live/tail.ts';
import { counted } from '../../numbers/amounts.ts';
import { usePage } from '../context.ts';
import { shownName } from '../names.ts';
import { ScrolledRows } from '../scrolled_rows.tsx';

const HEADINGS = ['', ...LIVE_HEADINGS].map((name) => ({ name: name || 'Mark' }));
const TRANSACTION = LIVE_HEADINGS.indexOf('Transaction');

export function NewestTable({ tail }: { tail: Tail }) {
  const [isHeld, setIsHeld] = useState(false);
  const shown = useRef<{ tail: Tail; total: number; rows: NewestRow[] }>({ tail, total: 0, rows: [] });
  const texts = useRef(new Map<number, RowTexts>());
  if (shown.current.tail !== tail || (!isHeld && shown.current.total !== tail.kept.newest.total)) {
    shown.current = { tail, total: tail.kept.newest.total, rows: tail.kept.newest.rows() };
    texts.current.clear();
  }
  const { rows, total } = shown.current;
  const textsOf = (at: number): RowTexts => {
    const known = texts.current.get(at) ?? rowTexts(rows[at]!, shownName);
    texts.current.set(at, known);
    return known;
  };
  const waiting = tail.kept.newest.total - total;
  return (
    <section class="panel">
      <h2>The newest {NEWEST_MAX}</h2>
      <p class="quiet held">
        {waiting > 0
          ? `${counted(waiting, 'new row')}: the table stands still while the pointer or the focus is in it.`
          : '\u00a0'}
      </p>
      <ScrolledRows
        label="The newest events"
        headings={HEADINGS}
        rowCount={rows.length}
        row={(at) => <Cells texts={textsOf(at)} kind={rows[at]!.kind} />}
        rowClass={(at) => (rows[at]!.kind === 'event' ? undefined : rows[at]!.kind)}
        onVisit={setIsHeld}
      />
    </section>
  );
}

function Cells({ texts: { cells, note, transactionId, eventId }, kind }: { texts: RowTexts; kind: NewestRow['kind'] }) {
  const { go } = usePage();
  if (cells === null)
    return (
      <td colSpan={HEADINGS.length}>
        {kind === 'lost' ? '▲' : '…'} {note}
      </td>
    );
  return (
    <>
      <td>{kind === 'late' ? `◷ ${note}` : ''}</td>
      {cells.map((cell, at) => (
        <td key={LIVE_HEADINGS[at]} class="digits">
          {at === TRANSACTION && transactionId !== null ? (
            <button
              type="button"
              class="link"
              onClick={() => go({ view: 'lanes', transaction: transactionId, event: eventId, session: null })}
            >
              {shownName(transactionId)}
            </button>
          ) : cell === '' ? (
            ''
          ) : (
            shownName(cell)
          )}
        </td>
      ))}
    </>
  );
}
