/** Shows lanes as a picture or a table, and the details of the selected event. */

import { useCallback, useMemo } from 'preact/hooks';
import type { ReceivedCoverage } from '../../contract/received.ts';
import { getEventId, getOwner, getWhat } from '../../model/columns/event_columns.ts';
import { createRowFinder } from '../../model/columns/row_finder.ts';
import { callName, type LanesModel } from '../../model/lanes/model.ts';
import { collectNeighbours, groupTimesByDevice } from '../../model/lanes/neighbours.ts';
import { OWN, WRITTEN_BACK } from '../../model/lanes/shares.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { ReadLanes } from '../api/load_lanes.ts';
import type { ProjectedTimes } from '../draw/projected.ts';
import { describeAttribution } from '../lanes/attribution.ts';
import { createLinks } from '../lanes/links.ts';
import { beginMissing } from '../losses/wording.ts';
import { createEventTable, HEADINGS } from '../table/rows.ts';
import { usePage } from './context.ts';
import { EventTable } from './event_table.tsx';
import { useKeys } from './keys.ts';
import { type Around, LanesPicture } from './lanes_picture.tsx';
import { UnendedNote } from './unended_note.tsx';

interface Props {
  lanes: ReadLanes;
  /** Name of the shown transaction or trace, formatted for display. */
  name: string;
  /** The whole time line, if the lanes show only a part of it; otherwise absent. */
  around?: Around;
  /** Times of the events with the latency of a what-if; absent or null without a what-if. */
  times?: ProjectedTimes | null;
  /** Position of the replay's clock at `nowMs`; null without a replay. */
  playheadNs?: (nowMs: number) => number | null;
  /** Row of the event that was played last; -1 before the first event. */
  playedRow?: () => number;
}

const noPlayhead = () => null;
const noRow = () => -1;

export function LanesPanel(props: Props) {
  const { lanes, name, around, times = null, playheadNs = noPlayhead, playedRow = noRow } = props;
  const { model, outline, sentence } = lanes;
  const { link, go } = usePage();
  const rows = useMemo(() => createRowFinder(model.columns), [model]);
  const selected = useMemo(() => (link.event === null ? -1 : rows.find(link.event)), [rows, link.event]);
  const select = useCallback(
    (row: number) => go({ event: row < 0 ? null : getEventId(model.columns, row) }, false),
    [go, model],
  );
  useKeys((key) => {
    if (key === 'V') go({ table: !link.table }, false);
    else if (key === 'Escape') select(-1);
    else return false;
    return true;
  });
  const shown = { model, selected, onSelect: select };
  // While events are being read, the event may still arrive, so it does not count as missing yet.
  const isMissing = link.event !== null && selected < 0 && lanes.isOthersCut !== null;
  return (
    <>
      {isMissing && (
        <p class="loss" role="status">
          ▲ The event {formatName(link.event!)} of the link is not here: it is of another transaction, or has been
          overwritten, and {name} is shown without it.{' '}
          <button type="button" onClick={() => select(-1)}>
            Forget it
          </button>
        </p>
      )}
      <div class="lanes">
        <section class="panel picture">
          <div class="controls">
            <button type="button" aria-pressed={link.table} onClick={() => go({ table: !link.table }, false)}>
              Table
            </button>
            <WrittenBackNote model={model} />
            {times && (
              <span class="quiet">
                Below each lane: <span class="key added" aria-hidden="true" /> what the latency adds
              </span>
            )}
          </div>
          {link.table ? (
            <EventTable {...shown} />
          ) : (
            <LanesPicture
              {...shown}
              {...{ outline, times }}
              {...(around && { around })}
              summary={sentence}
              playheadNs={playheadNs}
              playedRow={playedRow}
            />
          )}
        </section>
        {selected >= 0 && <EventDetail model={model} row={selected} onSelect={select} />}
      </div>
    </>
  );
}

interface LossesProps {
  coverage: ReceivedCoverage | null;
  /** The lanes of the picture; absent without a picture. */
  lanes?: ReadLanes;
  hasFailed?: boolean;
}

/**
 * Notes events that may have happened but are not in the picture. Without a coverage, there is no note about losses,
 * because the sentence of the picture says that it shows only a part.
 */
export function Losses({ coverage: known, lanes, hasFailed }: LossesProps) {
  return (
    <>
      {known && !known.complete && (
        <p class="loss">▲ {beginMissing(known)} in this time, so that it may have waited for more than is shown.</p>
      )}
      {known?.in_progress && <UnendedNote coverage={known} />}
      {hasFailed && lanes?.coverage && lanes.isOthersCut === null && (
        <p class="loss">▲ Others’ requests are missing.</p>
      )}
      {lanes?.isOthersCut && <p class="loss">▲ More requests of others were under way than are shown.</p>}
    </>
  );
}

function WrittenBackNote({ model: { writtenBack, ownSpan } }: { model: LanesModel }) {
  if (!writtenBack) return null;
  const requests = formatQuantity(writtenBack.count, 'request');
  const isLater = ownSpan !== null && writtenBack.lastEndNs > ownSpan.toNs;
  return (
    <span class="quiet">
      {requests} wrote its data back
      {isLater && `, up to ${formatShortDuration(writtenBack.lastEndNs - ownSpan.toNs)} later`}: no part of its time
    </span>
  );
}

/* Shows one event with exact values, how its owner was determined, and the events to which it is linked. */

interface EventDetailProps {
  model: LanesModel;
  row: number;
  onSelect: (row: number) => void;
}

function EventDetail({ model, row, onSelect }: EventDetailProps) {
  const { columns } = model;
  const table = useMemo(() => createEventTable(columns, BigInt(model.firstNs)), [columns, model.firstNs]);
  const links = useMemo(() => createLinks(model), [model]);
  const linked = useMemo(() => links.findLinks(row, LINKS_MAX), [links, row]);
  const isRequest = model.deviceOf[row]! >= 0;
  const neighbours = useMemo(
    () => (isRequest ? collectNeighbours(model, groupTimesByDevice(model, [row])) : []),
    [model, row, isRequest],
  );
  const attribution = describeAttribution(getOwner(columns, row));
  const cells = table.formatLine(row);

  useKeys((key) => {
    const next = key === ']' ? linked.first[0] : key === '[' ? linked.last : null;
    if (next) onSelect(next.row);
    return Boolean(next);
  });
  return (
    <aside class="panel detail" aria-label="The selected event">
      <h2>
        {formatName(callName(columns, row))} {formatShortDuration(columns.duration[row]!)}
      </h2>
      <p class={attribution.isDoubtful ? 'loss' : 'quiet'}>
        {attribution.isDoubtful && '▲ '}
        {formatName(attribution.source)} {attribution.quality}
        {model.queued[row] === 1
          ? model.shares[row] !== OWN && ' The transaction queued it.'
          : model.shares[row] === WRITTEN_BACK && ' It wrote data back, and is no part of the time.'}
      </p>
      <dl>
        {HEADINGS.map((heading, at) =>
          cells[at] === '' ? null : (
            <div key={heading} class="pair">
              <dt>{heading}</dt>
              <dd class="digits">{formatName(cells[at]!)}</dd>
            </div>
          ),
        )}
      </dl>
      {linked.count > 0 && <h3>{isRequest ? 'Calls that waited for it' : 'Requests that it waited for'}</h3>}
      {linked.first.map(({ row: other, kind }) => (
        <p key={other}>
          <button type="button" class="link" onClick={() => onSelect(other)}>
            {formatName(callName(columns, other))} {formatName(getWhat(columns, other).target ?? '')}{' '}
            {formatShortDuration(columns.duration[other]!)}
          </button>
          <span class="quiet"> {kind === 'exact' ? 'queued by this thread' : 'inferred: its data, during a sync'}</span>
        </p>
      ))}
      {linked.count > LINKS_MAX && <p class="quiet">and {formatQuantity(linked.count - LINKS_MAX, 'more link')}</p>}
      {neighbours.map(({ name, count }) => (
        <p key={name}>
          <strong>{formatQuantity(count, 'request')}</strong> of {formatName(name)} were there at the same time.
        </p>
      ))}
      <button type="button" onClick={() => onSelect(-1)} title="Esc">
        Close
      </button>
    </aside>
  );
}

const LINKS_MAX = 20;
