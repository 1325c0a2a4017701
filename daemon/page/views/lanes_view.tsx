/** One transaction: what it waited for, in a sentence, in parts, in lanes, in a table, and played again. */
import { useCallback, useEffect, useMemo, useRef } from 'preact/hooks';
import { eventId } from '../columns/event_columns.ts';
import { createRowFinder } from '../columns/row_finder.ts';
import type { Coverage, PlayedEvent } from '../feed/answers.ts';
import type { ReadLanes } from '../feed/load_lanes.ts';
import type { LanesModel } from '../lanes/model.ts';
import { counted } from '../numbers/amounts.ts';
import { grouped, shortDuration } from '../numbers/exact_times.ts';
import { BreakdownBar } from './breakdown_bar.tsx';
import { usePage } from './context.ts';
import { EventDetail } from './event_detail.tsx';
import { EventTable } from './event_table.tsx';
import { FailureNote } from './failure_note.tsx';
import { onKey } from './keys.ts';
import { LanesPicture } from './lanes_picture.tsx';
import { type PlayedPlace, placeOf } from './played_place.ts';
import { ReplayBar } from './replay_bar.tsx';
import { EVENTS_MAX, useLanes } from './use_lanes.ts';
import { useReplay } from './use_replay.ts';

export function LanesView({ transactionId }: { transactionId: string }) {
  const { setCoverage } = usePage();
  const loaded = useLanes(transactionId);
  const { lanes, transaction, failure, isLoading, askAgain } = loaded;
  const coverage = lanes?.coverage ?? transaction?.coverage ?? null;
  useEffect(() => setCoverage(coverage), [coverage, setCoverage]);
  return (
    <main aria-busy={isLoading}>
      {isLoading && <div class="loading" />}
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {transaction && transaction.event_count > EVENTS_MAX && <TooMany count={transaction.event_count} />}
      {lanes && <Lanes transactionId={transactionId} lanes={lanes} coverage={coverage} />}
    </main>
  );
}

interface LanesProps {
  transactionId: string;
  lanes: ReadLanes;
  coverage: Coverage | null;
}

function Lanes({ transactionId, lanes, coverage }: LanesProps) {
  const { model, breakdown, sentence } = lanes;
  const { link, go } = usePage();
  const [rows, playedRows] = useMemo(() => [createRowFinder(model.columns), createRowFinder(model.columns)], [model]);
  const selected = useMemo(() => (link.event === null ? -1 : rows.find(link.event)), [rows, link.event]);
  const select = useCallback(
    (row: number) => go({ event: row < 0 ? null : eventId(model.columns, row) }, false),
    [go, model],
  );
  const played = useRef<PlayedPlace>({ row: -1, offsetNs: 0 });
  const onEvent = ({ event_id, replay: { offset_ns } }: PlayedEvent) => {
    played.current = { row: playedRows.find(event_id), offsetNs: offset_ns };
  };
  const { replay, failure, open } = useReplay(transactionId, onEvent);
  const playheadNs = useCallback(
    (nowMs: number) => (replay?.session ? placeOf(model, played.current, replay, nowMs) : null),
    [replay, model],
  );
  const playedRow = useCallback(() => played.current.row, []);

  useEffect(
    () =>
      onKey((code) => {
        if (code === 'KeyV') go({ table: !link.table }, false);
        else if (code === 'Escape') select(-1);
        else return false;
        return true;
      }),
    [go, link.table, select],
  );
  const shown = { model, selected, onSelect: select };
  return (
    <>
      <h1>{sentence}</h1>
      <Losses coverage={coverage} isOthersCut={lanes.isOthersCut === true} />
      {breakdown && <BreakdownBar breakdown={breakdown} />}
      <div class="lanes">
        <section class="panel picture">
          <div class="controls">
            <button type="button" aria-pressed={link.table} onClick={() => go({ table: !link.table }, false)}>
              Table
            </button>
            <WrittenBackNote model={model} />
          </div>
          {link.table ? (
            <EventTable {...shown} />
          ) : (
            <LanesPicture {...shown} summary={sentence} playheadNs={playheadNs} playedRow={playedRow} />
          )}
        </section>
        {selected >= 0 && <EventDetail model={model} row={selected} onSelect={select} />}
      </div>
      {failure && <FailureNote failure={failure} />}
      <ReplayBar replay={replay} open={open} recordedNs={model.ownSpan ? model.ownSpan.toNs - model.firstNs : 0} />
    </>
  );
}

function Losses({ coverage: known, isOthersCut }: { coverage: Coverage | null; isOthersCut: boolean }) {
  return (
    <>
      {known && !known.complete && (
        <p class="loss">
          ▲ {known.lost > 0 ? `At least ${counted(known.lost, 'event')}` : 'Events'} {known.lost === 1 ? 'is' : 'are'}{' '}
          missing in this time, so that it may have waited for more than is shown.
        </p>
      )}
      {isOthersCut && <p class="loss">▲ More requests of others were under way than are shown.</p>}
    </>
  );
}

function WrittenBackNote({ model: { writtenBack, ownSpan } }: { model: LanesModel }) {
  if (!writtenBack) return null;
  const requests = `${grouped(writtenBack.count)} ${writtenBack.count === 1 ? 'request' : 'requests'}`;
  const isLater = ownSpan !== null && writtenBack.lastEndNs > ownSpan.toNs;
  return (
    <span class="quiet">
      {requests} wrote its data back{isLater && `, up to ${shortDuration(writtenBack.lastEndNs - ownSpan.toNs)} later`}:
      no part of its time
    </span>
  );
}

function TooMany({ count }: { count: number }) {
  return (
    <section class="panel">
      <h1>{grouped(count)} events are too many to be drawn one by one.</h1>
      <p>
        Up to {grouped(EVENTS_MAX)} are. <code>kreplay stats</code> counts them by process and type, and{' '}
        <code>kreplay events --from … --to …</code> lists a part.
      </p>
    </section>
  );
}
