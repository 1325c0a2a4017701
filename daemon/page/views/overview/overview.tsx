/** Shows the slowest transactions of a window and what sets them apart: as a sentence, on a map, and in lists. */

import { useEffect, useMemo, useState } from 'preact/hooks';
import { formatName } from '../../../model/wording/names.ts';
import { beginMissing } from '../../losses/wording.ts';
import {
  type Apart,
  askApart,
  askMap,
  askSlowest,
  buildDifferencesPath,
  buildSlowestQuestion,
  chooseSelection,
  type LatencyMap,
  mapPath,
  type Selection,
  type SlowestTransactions,
} from '../../map/questions.ts';
import { describeOverview } from '../../map/sentence.ts';
import { tailSize } from '../../map/tail.ts';
import { computeMeans } from '../../map/time_spent.ts';
import { ListedBursts, useBursts } from '../bursts.tsx';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useKeys } from '../keys.ts';
import { TimeSpent } from '../time_spent.tsx';
import { type Answer, useAnswer } from '../use_answer.ts';
import { WindowForm } from '../window_form.tsx';
import { FewSentence, NothingRecorded, SlowestLine, Unlabelled } from './first_words.tsx';
import { MapPanel } from './map_panel.tsx';
import { SlowestTable } from './slowest_table.tsx';
import { WhatIsDifferent } from './what_is_different.tsx';

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
  // The answer for an earlier map or selection is shown until the new answer arrives or fails. Without a selection, no
  // answer is shown.
  const shown = selection && !(failure && isApartOld) ? apart.body : null;
  const bursts = useBursts(state.slowest.body?.transactions);
  return (
    <>
      <Sentences {...{ state, map, bursts }} />
      {map.isUnlabelled && <Unlabelled />}
      <Losses map={map} />
      <MapPanel map={map} selection={selection} isOld={isOld} />
      <div class="columns">
        {isComparable(state, map) && (
          <section class="panel apart" aria-busy={isApartOld}>
            {failure && <FailureNote failure={failure} onRetry={apart.askAgain} />}
            {!shown && !failure && <p class="quiet">Comparing the selected with the others…</p>}
            {shown && <WhatIsDifferent apart={shown} isOld={isApartOld || isOld} />}
            {shown && shown.answer.selected.count > 0 && <WhereTimeWent apart={shown} />}
          </section>
        )}
        {map.of === 'transactions' && <SlowestPanel {...{ state, map, bursts }} />}
      </div>
    </>
  );
}

/**
 * Whether a comparison is shown or expected. Its space is reserved, so that nothing moves when the comparison arrives.
 */
function isComparable({ selection }: OverviewState, { answer }: LatencyMap): boolean {
  return selection !== null || tailSize(answer.total.count) > 0;
}

interface FoundProps {
  state: OverviewState;
  map: LatencyMap;
  bursts: ReturnType<typeof useBursts>;
}

function Sentences({ state, map, bursts }: FoundProps) {
  const { selection, slowest, apart, isApartOld, isSlowestOld } = state;
  const { announce } = usePage();
  const first = isSlowestOld ? undefined : slowest.body?.transactions[0];
  const current = selection && (isApartOld && apart.body && !apart.failure ? apart.body : null);
  const sentence = !selection
    ? null
    : current
      ? describeOverview(current.map, current.selection, current.answer, formatName)
      : describeOverview(map, selection, isApartOld ? null : (apart.body?.answer ?? null), formatName);
  const isChosen = selection !== null && selection.kind !== 'slowest';
  useEffect(() => {
    if (isChosen && !isApartOld && sentence !== null) announce(sentence);
  }, [isChosen, isApartOld, sentence]);
  return (
    <div class={isComparable(state, map) ? 'words reserved' : 'words'}>
      {sentence !== null && <h1>{sentence}</h1>}
      {sentence === null && <FewSentence map={map} slowest={isSlowestOld ? null : slowest.body} />}
      {sentence !== null && map.of === 'transactions' && slowest.body && (
        <SlowestLine transaction={slowest.body.transactions[0]} isOld={isSlowestOld} />
      )}
      {first && first.burst_count! > 1 && (
        <p>
          <ListedBursts of={first} known={bursts} />
        </p>
      )}
    </div>
  );
}

function SlowestPanel({ state, map, bursts }: FoundProps) {
  const { slowest, isSlowestOld, selection } = state;
  const leastNs = selection?.kind === 'slowest' ? selection.box.box_min : null;
  return (
    <section class="panel wide" aria-busy={isSlowestOld}>
      {slowest.failure && <FailureNote failure={slowest.failure} onRetry={slowest.askAgain} />}
      {slowest.body && !(slowest.failure && isSlowestOld) && (
        <SlowestTable {...{ map, bursts }} slowest={slowest.body} leastNs={isSlowestOld ? null : leastNs} />
      )}
    </section>
  );
}

function Losses({ map: { answer, of } }: { map: LatencyMap }) {
  if (answer.coverage.complete) return null;
  return (
    <p class="loss">
      ▲ {beginMissing(answer.coverage)} in this window: there may be more {of}, and durations may be longer.
    </p>
  );
}

/* Requests the three answers of an overview; each depends on the answer before it, and each can fail alone. */

/** Number of columns by the width of the window, in CSS pixels; each column is a few pixels wide. */
const COLUMNS: readonly (readonly [widthPx: number, columns: number])[] = [
  [1000, 240],
  [600, 120],
  [0, 60],
];

interface OverviewState {
  map: Answer<LatencyMap>;
  slowest: Answer<SlowestTransactions>;
  apart: Answer<Apart>;
  /**
   * The selection of the link; null if it is not known yet, or if there are too few transactions or events for a
   * selection of the slowest.
   */
  selection: Selection | null;
  /** Whether `map.body` belongs to an earlier link. */
  isMapOld: boolean;
  /** Whether `apart.body` belongs to an earlier map or selection. */
  isApartOld: boolean;
  isSlowestOld: boolean;
  isLoading: boolean;
}

function useOverview(): OverviewState {
  const { daemon, link } = usePage();
  const [columns] = useState(() => COLUMNS.find(([widthPx]) => window.innerWidth >= widthPx)![1]);
  const mapNow = mapPath(link, columns);
  const map = useAnswer(mapNow, (signal) => askMap(daemon, link, columns, signal));
  const question = map.body && buildSlowestQuestion(link, map.body);
  const slowest = useAnswer(question?.key ?? null, (signal) => askSlowest(daemon, question!, signal));
  const isSlowestOld = slowest.body?.key !== question?.key;
  const known = !isSlowestOld ? slowest.body : slowest.failure && !slowest.isLoading ? 'failed' : null;
  const selection = useMemo(() => map.body && chooseSelection(link, map.body, known), [link, map.body, known]);
  const apartNow = map.body && selection && buildDifferencesPath(map.body, selection);
  const apart = useAnswer(apartNow, (signal) => askApart(daemon, map.body!, selection!, signal));
  const isApartOld = apart.body?.key !== apartNow;
  // An answer that has not been requested does not count as loading.
  const isLoading =
    map.isLoading ||
    (question !== null && slowest.isLoading && isSlowestOld) ||
    (apartNow !== null && apart.isLoading && isApartOld);
  return { map, slowest, apart, selection, isMapOld: map.body?.key !== mapNow, isSlowestOld, isApartOld, isLoading };
}

/** Shows the mean times of the selection and of the rest, by part. */
function WhereTimeWent({ apart: { answer, map } }: { apart: Apart }) {
  const atLeast = map.answer.coverage.complete ? '' : ', at least';
  return (
    <TimeSpent
      heading={`In the mean${atLeast}`}
      sides={[
        { name: 'Selected', ...computeMeans(answer.selected) },
        { name: 'Others', ...computeMeans(answer.others) },
      ]}
    />
  );
}
