/** What was slow in a window and what sets it apart: in a sentence, on a map, in lists. */
import { useEffect } from 'preact/hooks';
import type { LatencyMap } from '../../map/questions.ts';
import { overviewSentence } from '../../map/sentence.ts';
import { counted } from '../../numbers/amounts.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useKeys } from '../keys.ts';
import { shownName } from '../names.ts';
import { WindowForm } from '../window_form.tsx';
import { FewSentence, NothingRecorded, SlowestLine, Unlabelled } from './first_words.tsx';
import { MapPanel } from './map_panel.tsx';
import { SlowestTable } from './slowest_table.tsx';
import { type OverviewState, useOverview } from './use_overview.ts';
import { WhatIsDifferent } from './what_is_different.tsx';
import { WhereTimeWent } from './where_time_went.tsx';

export function Overview() {
  const { link, go, setCoverage } = usePage();
  const state = useOverview();
  const { map, isLoading } = state;
  const isOutdated = state.isMapOld && map.failure !== null;
  useEffect(() => setCoverage((!isOutdated && map.body?.answer.coverage) || null), [map.body, isOutdated]);
  useKeys((key) => {
    if (key === 'V') go({ table: !link.table }, false);
    return key === 'V';
  });
  const isEmpty = map.body?.answer.total.count === 0;
  return (
    <main aria-busy={isLoading} class="overview">
      {isLoading && <div class="loading" />}
      <WindowForm />
      {map.failure && <FailureNote failure={map.failure} onRetry={map.askAgain} />}
      {map.body && !isEmpty && isOutdated && (
        <p class="loss">▲ Below is the answer for the window and the filters before.</p>
      )}
      {map.body && isEmpty && !state.isMapOld && <NothingRecorded isUnlabelled={map.body.isUnlabelled} />}
      {map.body && !isEmpty && <Found state={state} map={map.body} />}
    </main>
  );
}

function Found({ state, map }: { state: OverviewState; map: LatencyMap }) {
  const { selection, apart, isApartOld } = state;
  const isOld = state.map.isLoading || state.isMapOld;
  const failure = selection && apart.failure;
  // An answer for another map or selection stays until the new one is in, or fails; without a selection there is none.
  const shown = selection && !(failure && isApartOld) ? apart.body : null;
  return (
    <>
      <Sentences state={state} map={map} />
      {map.isUnlabelled && <Unlabelled />}
      <Losses map={map} />
      <MapPanel map={map} selection={selection} isOld={isOld} />
      <div class="columns">
        {(shown || failure) && (
          <section class="panel" aria-busy={isApartOld}>
            {failure && <FailureNote failure={failure} onRetry={apart.askAgain} />}
            {shown && <WhatIsDifferent apart={shown} isOld={isApartOld || isOld} />}
            {shown && shown.answer.selected.count > 0 && <WhereTimeWent apart={shown} />}
          </section>
        )}
        {map.of === 'transactions' && <SlowestPanel state={state} map={map} />}
      </div>
    </>
  );
}

function Sentences({
  state: { selection, slowest, apart, isApartOld, isSlowestOld },
  map,
}: {
  state: OverviewState;
  map: LatencyMap;
}) {
  const { announce } = usePage();
  const current = selection && (isApartOld && apart.body && !apart.failure ? apart.body : null);
  const sentence = !selection
    ? null
    : current
      ? overviewSentence(current.map, current.selection, current.answer, shownName)
      : overviewSentence(map, selection, isApartOld ? null : (apart.body?.answer ?? null), shownName);
  const isChosen = selection !== null && selection.kind !== 'slowest';
  useEffect(() => {
    if (isChosen && !isApartOld && sentence !== null) announce(sentence);
  }, [isChosen, isApartOld, sentence]);
  return (
    <>
      {sentence !== null && <h1>{sentence}</h1>}
      {sentence === null && <FewSentence map={map} slowest={isSlowestOld ? null : slowest.body} />}
      {sentence !== null && map.of === 'transactions' && slowest.body && (
        <SlowestLine transaction={slowest.body.transactions[0]} isOld={isSlowestOld} />
      )}
    </>
  );
}

function SlowestPanel({ state, map }: { state: OverviewState; map: LatencyMap }) {
  const { slowest, isSlowestOld, selection } = state;
  const leastNs = selection?.kind === 'slowest' ? selection.box.box_min : null;
  return (
    <section class="panel wide" aria-busy={isSlowestOld}>
      {slowest.failure && <FailureNote failure={slowest.failure} onRetry={slowest.askAgain} />}
      {slowest.body && !(slowest.failure && isSlowestOld) && (
        <SlowestTable
          slowest={slowest.body}
          leastNs={isSlowestOld ? null : leastNs}
          isComplete={map.answer.coverage.complete}
        />
      )}
    </section>
  );
}

function Losses({ map: { answer, of } }: { map: LatencyMap }) {
  const { complete, lost } = answer.coverage;
  if (complete) return null;
  const events = lost > 0 ? `At least ${counted(lost, 'event')} ${lost === 1 ? 'is' : 'are'}` : 'Events are';
  return (
    <p class="loss">
      ▲ {events} missing in this window: there may be more {of}, and durations may be longer.
    </p>
  );
}
