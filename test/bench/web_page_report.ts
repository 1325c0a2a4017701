/** The table and the goals of the bench of the web page: each figure is that of the best round. */
import type { Target } from './bench.ts';
import type { Frames } from './page_browser.ts';
import type { InputTime } from './page_inputs.ts';
import type { Playback } from './page_playback.ts';
import type { DenseMeasured, LanesMeasured, Opened, Part, PeerMeasured } from './page_views.ts';
import { megabytes } from './table.ts';

export interface Answers {
  tookMs: number[];
  /** The same events summed up by `/api/stats`. */
  statsMs: number[];
}

export interface PageResults {
  opening: Opened[];
  lanes: LanesMeasured[];
  dense: DenseMeasured[];
  speedscope: PeerMeasured[];
  overview: Opened[];
  box: InputTime[];
  sliders: InputTime[][];
  step: number[];
  playback: Playback[];
  heatmap: Answers;
  differences: Answers;
  eventDifferences: Answers;
  /** All files of the page, compressed. */
  gzipBytes: number;
}

const PART_TEXTS: Record<Part, string> = { all: 'all', tenth: 'a tenth', thousandth: 'a thousandth' };
const PARTS = Object.keys(PART_TEXTS) as Part[];
const NAIVE_OVER_DRAW_MIN = 10;
const FRAME_MS_MAX = { p95: 17, max: 34 } as const;
const ABSENT = 'not there yet';

/** The best round; null if none has a value. */
function best<Round>(all: readonly Round[], pick: (round: Round) => number | null): number | null {
  const values = all.map(pick).filter((value) => value !== null);
  return values.length > 0 ? Math.min(...values) : null;
}

const least = <Round>(all: readonly Round[], pick: (round: Round) => number) => best(all, pick)!;
const self = (value: number) => value;

/** The round whose frames are the smoothest. */
function smoothest(all: readonly { frames: Frames }[]): Frames {
  return all
    .map(({ frames }) => frames)
    .reduce((a, b) => (b.p95 < a.p95 || (b.p95 === a.p95 && b.max < a.max) ? b : a));
}

interface Line {
  text: string;
  /** Milliseconds, unless `format` says otherwise; null if the page has nothing of the kind yet. */
  figure: number | null;
  goal: number;
  format?: (value: number) => string;
  anchor?: { text: string; figure: number };
}

const milliseconds = (value: number) => (value < 100 ? value.toFixed(1) : value.toFixed(0));
const count = (value: number) => String(value);

function linesOf(results: PageResults): Line[] {
  const { opening, lanes, speedscope, overview, playback } = results;
  const peer = (pick: (round: PeerMeasured) => number) => ({ text: 'speedscope', figure: least(speedscope, pick) });
  const stats = ({ statsMs }: Answers) => ({ text: '/api/stats', figure: least(statsMs, self) });
  const answer = (text: string, answers: Answers, goal: number): Line => ({
    ...{ text, figure: least(answers.tookMs, self), goal, anchor: stats(answers) },
  });
  const foreign = new Set([...opening, ...lanes, ...overview].flatMap((round) => round.foreign));
  return [
    ...drawLines(results),
    ...frameLines(results),
    { text: 'click to first picture', figure: least(lanes, ({ pictureMs }) => pictureMs), goal: 300 },
    {
      ...{ text: 'click to all events', figure: least(lanes, ({ allMs }) => allMs), goal: 2500 },
      anchor: peer(({ loadMs }) => loadMs),
    },
    {
      ...{
        text: 'longest task meanwhile (0: below 50)',
        figure: least(lanes, (round) => round.longestTaskMs),
        goal: 50,
      },
      anchor: peer(({ longestTaskMs }) => longestTaskMs),
    },
    {
      ...{ text: 'memory of scripts, MB', figure: least(lanes, ({ heapBytes }) => heapBytes), goal: 150e6 },
      ...{ format: megabytes, anchor: peer(({ heapBytes }) => heapBytes) },
    },
    { text: 'page ready, cold', figure: least(opening, ({ readyMs }) => readyMs), goal: 700 },
    {
      text: 'first sentence of many transactions',
      figure: least(overview, ({ sentenceMs }) => sentenceMs),
      goal: 2000,
    },
    answer('/api/heatmap, a transaction an event', results.heatmap, 150),
    answer('/api/differences of transactions', results.differences, 1000),
    answer('/api/differences of events', results.eventDifferences, 1000),
    { text: 'box in the map to picture', figure: best(results.box, (round) => round), goal: 33 },
    { text: 'slider of extra latency to picture', figure: best(results.sliders, (round) => round[0]!), goal: 16 },
    { text: 'slider of the timeout to picture', figure: best(results.sliders, (round) => round[1]!), goal: 16 },
    { text: 'step to picture', figure: least(results.step, self), goal: 50 },
    { text: 'played event to its light', figure: least(playback, ({ litMs }) => litMs), goal: 33 },
    { text: 'playhead off the position', figure: least(playback, ({ playheadMs }) => playheadMs), goal: 20 },
    { text: 'all files, gzip, bytes', figure: results.gzipBytes, goal: 90_000, format: count },
    { text: 'origins asked beside its own', figure: foreign.size, goal: 0, format: count },
  ];
}

function drawLines({ lanes, dense }: PageResults): Line[] {
  return PARTS.flatMap((part): Line[] => [
    {
      ...{ text: `draw ${PART_TEXTS[part]}, 1280x800`, figure: least(lanes, ({ draws }) => draws[part]), goal: 4 },
      anchor: { text: 'rectangles', figure: least(lanes, ({ naive }) => naive[part]) },
    },
    {
      ...{ text: `draw ${PART_TEXTS[part]}, 2560x1600`, figure: least(dense, ({ draws }) => draws[part]), goal: 8 },
      anchor: { text: 'an empty picture', figure: least(dense, ({ emptyMs }) => emptyMs) },
    },
  ]);
}

function frameLines({ lanes, dense, speedscope }: PageResults): Line[] {
  const [usual, fine, peer] = [smoothest(lanes), smoothest(dense), smoothest(speedscope)];
  const idle = smoothest(lanes.map((round) => ({ frames: round.idle })));
  const line = (text: string, frames: Frames, name: 'p95' | 'max', beside: string, anchor: Frames): Line => ({
    ...{ text, figure: frames[name], goal: FRAME_MS_MAX[name], anchor: { text: beside, figure: anchor[name] } },
  });
  return [
    line('zoom and pan, 1280x800: frame', usual, 'p95', 'speedscope', peer),
    line('longest frame', usual, 'max', 'speedscope', peer),
    line('zoom and pan, 2560x1600: frame', fine, 'p95', 'no change', idle),
    line('longest frame', fine, 'max', 'no change', idle),
  ];
}

export function valuesOf({ lanes, speedscope }: PageResults): { value: number; anchors: Record<string, number> } {
  const naive = least(lanes, (round) => round.naive.all);
  return {
    value: least(lanes, ({ draws }) => draws.all),
    anchors: {
      rectangles: naive,
      empty: least(lanes, ({ emptyMs }) => emptyMs),
      speedscope: smoothest(speedscope).p95,
    },
  };
}

export function targetsOf(results: PageResults): Target[] {
  const naive = PARTS.map((part) => {
    const times = least(results.lanes, (round) => round.naive[part]) / least(results.lanes, ({ draws }) => draws[part]);
    return { part, times };
  });
  return [
    ...linesOf(results).map(({ text, figure, goal, format = milliseconds }) => ({
      text: `${text}: at most ${format(goal)}`,
      measured: figure === null ? ABSENT : format(figure),
      met: figure !== null && figure <= goal,
    })),
    {
      text: `all events are drawn at least ${NAIVE_OVER_DRAW_MIN} times faster than as rectangles`,
      measured: naive.map(({ part, times }) => `${times.toFixed(0)} times (${PART_TEXTS[part]})`).join(', '),
      met: naive[0]!.times >= NAIVE_OVER_DRAW_MIN,
    },
  ];
}

export function tableOf(results: PageResults, events: number): string[][] {
  return [
    [`${events} events, ms (95th percentile where there are many)`, 'page', 'goal', 'beside it', ''],
    ...linesOf(results).map(({ text, figure, goal, format = milliseconds, anchor }) => [
      text,
      figure === null ? ABSENT : format(figure),
      format(goal),
      anchor ? format(anchor.figure) : '',
      anchor?.text ?? '',
    ]),
  ];
}
