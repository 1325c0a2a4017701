/** Shows the slowest transactions of a window and what sets them apart: as a sentence, on a map, and in lists. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { PARTS } from '../../lanes/breakdown.ts';
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
import { computeMeans, type Means } from '../../map/time_spent.ts';
import { formatQuantity } from '../../numbers/amounts.ts';
import { formatExactDuration, formatShortDuration } from '../../numbers/exact_times.ts';
import { PART_NAMES } from '../breakdown_bar.tsx';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useKeys } from '../keys.ts';
import { formatName } from '../names.ts';
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
  // An answer for another map or selection is shown until the new answer arrives or fails; without a selection, no
  // answer is shown.
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
      ? describeOverview(current.map, current.selection, current.answer, formatName)
      : describeOverview(map, selection, isApartOld ? null : (apart.body?.answer ?? null), formatName);
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
  const events = lost > 0 ? `At least ${formatQuantity(lost, 'event')} ${lost === 1 ? 'is' : 'are'}` : 'Events are';
  return (
    <p class="loss">
      ▲ {events} missing in this window: there may be more {of}, and durations may be longer.
    </p>
  );
}

/* Requests the three answers of an overview; each depends on the answer before it, and each can fail alone. */

/** Number of columns by the width of the window in CSS pixels: each column is a few pixels wide. */
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
   * The selection of the link; null if it is not known yet, or if there are too few transactions or events to select
   * the slowest.
   */
  selection: Selection | null;
  /** Whether `map.body` belongs to another link than the present one. */
  isMapOld: boolean;
  /** Whether `apart.body` belongs to another map or selection than the present one. */
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
  // Only answers that have been requested are awaited.
  const isLoading =
    map.isLoading ||
    (question !== null && slowest.isLoading && isSlowestOld) ||
    (apartNow !== null && apart.isLoading && isApartOld);
  return { map, slowest, apart, selection, isMapOld: map.body?.key !== mapNow, isSlowestOld, isApartOld, isLoading };
}

/* Shows the mean times of the selection and of the rest, by part: bars on a common scale, and numbers. */

function WhereTimeWent({ apart: { answer, map } }: { apart: Apart }) {
  const selected = computeMeans(answer.selected);
  const others = computeMeans(answer.others);
  const longestNs = selected.durationNs > others.durationNs ? selected.durationNs : others.durationNs;
  const shown = PARTS.filter((part) => selected.parts[part] > 0n || others.parts[part] > 0n);
  const atLeast = map.answer.coverage.complete ? '' : ', at least';
  return (
    <>
      <h2>Where the time went</h2>
      <Bar name="selected" means={selected} longestNs={longestNs} />
      <Bar name="others" means={others} longestNs={longestNs} />
      <table>
        <thead>
          <tr>
            <th scope="col">In the mean{atLeast}</th>
            <th scope="col" class="number">
              Selected
            </th>
            <th scope="col" class="number">
              Others
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((part) => (
            <tr key={part}>
              <th scope="row">
                <span class={`key ${part}`} aria-hidden="true" /> {PART_NAMES[part]}
              </th>
              <Time ns={selected.parts[part]} />
              <Time ns={others.parts[part]} />
            </tr>
          ))}
          <tr>
            <th scope="row">altogether</th>
            <Time ns={selected.durationNs} />
            <Time ns={others.durationNs} />
          </tr>
        </tbody>
      </table>
    </>
  );
}

function Bar({ name, means: { parts, durationNs }, longestNs }: { name: string; means: Means; longestNs: bigint }) {
  const share = longestNs === 0n ? 0 : Number(durationNs) / Number(longestNs);
  return (
    <div class="spent" aria-hidden="true">
      <span class="quiet">{name}</span>
      <div class="parts" style={{ width: `${share * 100}%` }}>
        {PARTS.map((part) => (
          <div key={part} class={`part ${part}`} style={{ flexGrow: Number(parts[part]) }} />
        ))}
      </div>
    </div>
  );
}

function Time({ ns }: { ns: bigint }) {
  return (
    <td class="number" title={formatExactDuration(ns)}>
      {formatShortDuration(ns)}
    </td>
  );
}
