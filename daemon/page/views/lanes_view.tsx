/** One transaction: what it waited for, in a sentence, in parts, in lanes, in a table, and played again. */
import { useCallback, useEffect, useMemo, useRef } from 'preact/hooks';
import { createRowFinder } from '../columns/row_finder.ts';
import type { Coverage, PlayedEvent } from '../feed/answers.ts';
import type { ReadLanes } from '../feed/load_lanes.ts';
import { grouped } from '../numbers/exact_times.ts';
import { BreakdownBar } from './breakdown_bar.tsx';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { LanesPanel, Losses } from './lanes_panel.tsx';
import { shownName } from './names.ts';
import { type PlayedPlace, placeOf } from './played_place.ts';
import { PrintedEvents } from './print_note.tsx';
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
  const playedRows = useMemo(() => createRowFinder(model.columns), [model]);
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

  return (
    <>
      <h1>{sentence}</h1>
      <Losses coverage={coverage} isOthersCut={lanes.isOthersCut === true} />
      {breakdown && <BreakdownBar breakdown={breakdown} />}
      <LanesPanel {...{ lanes, playheadNs, playedRow }} name={shownName(transactionId)} />
      <PrintedEvents model={model} />
      {failure && <FailureNote failure={failure} />}
      <ReplayBar replay={replay} open={open} recordedNs={model.ownSpan ? model.ownSpan.toNs - model.firstNs : 0} />
    </>
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
