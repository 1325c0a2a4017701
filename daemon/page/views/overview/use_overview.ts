/** The three answers of an overview, which follow from each other, and each of which can fail alone. */
import { useMemo, useState } from 'preact/hooks';
import {
  type Apart,
  askApart,
  askMap,
  askSlowest,
  differencesPath,
  type LatencyMap,
  mapPath,
  type Selection,
  type Slowest,
  selectionOf,
  slowestQuestion,
} from '../../map/questions.ts';
import { usePage } from '../context.ts';
import { type Answer, useAnswer } from '../use_answer.ts';

/** Columns by the width of the window, CSS pixels: each is some pixels wide. */
const COLUMNS: readonly (readonly [widthPx: number, columns: number])[] = [
  [1000, 240],
  [600, 120],
  [0, 60],
];

export interface OverviewState {
  map: Answer<LatencyMap>;
  slowest: Answer<Slowest>;
  apart: Answer<Apart>;
  /** What the link selects; null if it is not known yet, or if there are too few for their slowest. */
  selection: Selection | null;
  /** Whether `map.body` is of another link than the present one. */
  isMapOld: boolean;
  /** Whether `apart.body` is of another map or selection than the present one. */
  isApartOld: boolean;
  isSlowestOld: boolean;
  isLoading: boolean;
}

export function useOverview(): OverviewState {
  const { daemon, link } = usePage();
  const [columns] = useState(() => COLUMNS.find(([widthPx]) => window.innerWidth >= widthPx)![1]);
  const mapNow = mapPath(link, columns);
  const map = useAnswer(mapNow, (signal) => askMap(daemon, link, columns, signal));
  const question = map.body && slowestQuestion(link, map.body);
  const slowest = useAnswer(question?.key ?? null, (signal) => askSlowest(daemon, question!, signal));
  const isSlowestOld = slowest.body?.key !== question?.key;
  const known = !isSlowestOld ? slowest.body : slowest.failure && !slowest.isLoading ? 'failed' : null;
  const selection = useMemo(() => map.body && selectionOf(link, map.body, known), [link, map.body, known]);
  const apartNow = map.body && selection && differencesPath(map.body, selection);
  const apart = useAnswer(apartNow, (signal) => askApart(daemon, map.body!, selection!, signal));
  const isApartOld = apart.body?.key !== apartNow;
  // What is not asked for is not awaited.
  const isLoading =
    map.isLoading ||
    (question !== null && slowest.isLoading && isSlowestOld) ||
    (apartNow !== null && apart.isLoading && isApartOld);
  return { map, slowest, apart, selection, isMapOld: map.body?.key !== mapNow, isSlowestOld, isApartOld, isLoading };
}
