/** One event with all digits, how its owner is known, and what it is linked to. */
import { useMemo } from 'preact/hooks';
import { ownerOf, whatOf } from '../columns/event_columns.ts';
import { attributionText } from '../lanes/attribution.ts';
import { createLinks } from '../lanes/links.ts';
import { callName, type LanesModel } from '../lanes/model.ts';
import { neighboursOf } from '../lanes/neighbours.ts';
import { OWN, WRITTEN_BACK } from '../lanes/shares.ts';
import { counted } from '../numbers/amounts.ts';
import { shortDuration } from '../numbers/exact_times.ts';
import { createEventTable, HEADINGS } from '../table/rows.ts';
import { useKeys } from './keys.ts';
import { shownName } from './names.ts';

interface Props {
  model: LanesModel;
  row: number;
  onSelect: (row: number) => void;
}

export function EventDetail({ model, row, onSelect }: Props) {
  const { columns } = model;
  const table = useMemo(() => createEventTable(columns, BigInt(model.firstNs)), [columns, model.firstNs]);
  const links = useMemo(() => createLinks(model), [model]);
  const linked = useMemo(() => links.of(row, LINKS_MAX), [links, row]);
  const isRequest = model.deviceOf[row]! >= 0;
  const neighbours = useMemo(() => (isRequest ? neighboursOf(model, [row]) : []), [model, row, isRequest]);
  const attribution = attributionText(ownerOf(columns, row));
  const cells = table.cells(row);

  useKeys((key) => {
    const next = key === ']' ? linked.first[0] : key === '[' ? linked.last : null;
    if (next) onSelect(next.row);
    return Boolean(next);
  });
  return (
    <aside class="panel detail" aria-label="The selected event">
      <h2>
        {shownName(callName(columns, row))} {shortDuration(columns.duration[row]!)}
      </h2>
      <p class={attribution.isDoubtful ? 'loss' : 'quiet'}>
        {attribution.isDoubtful && '▲ '}
        {shownName(attribution.source)} {attribution.quality}
        {model.queued[row] === 1
          ? model.shares[row] !== OWN && ' The transaction queued it.'
          : model.shares[row] === WRITTEN_BACK && ' It wrote data back, and is no part of the time.'}
      </p>
      <dl>
        {HEADINGS.map((heading, at) =>
          cells[at] === '' ? null : (
            <div key={heading} class="pair">
              <dt>{heading}</dt>
              <dd class="digits">{shownName(cells[at]!)}</dd>
            </div>
          ),
        )}
      </dl>
      {linked.count > 0 && <h3>{isRequest ? 'Calls that waited for it' : 'Requests that it waited for'}</h3>}
      {linked.first.map(({ row: other, kind }) => (
        <p key={other}>
          <button type="button" class="link" onClick={() => onSelect(other)}>
            {shownName(callName(columns, other))} {shownName(whatOf(columns, other).target ?? '')}{' '}
            {shortDuration(columns.duration[other]!)}
          </button>
          <span class="quiet"> {kind === 'exact' ? 'queued by this thread' : 'inferred: its data, during a sync'}</span>
        </p>
      ))}
      {linked.count > LINKS_MAX && <p class="quiet">and {counted(linked.count - LINKS_MAX, 'more link')}</p>}
      {neighbours.map(({ name, count }) => (
        <p key={name}>
          <strong>{counted(count, 'request')}</strong> of {shownName(name)} were there at the same time.
        </p>
      ))}
      <button type="button" onClick={() => onSelect(-1)} title="Esc">
        Close
      </button>
    </aside>
  );
}

const LINKS_MAX = 20;
