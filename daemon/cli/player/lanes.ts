/**
 * Draws one lane per thread; all lanes have the same time scale:
 *
 *                     +10.000ms          v                    +14.000ms
 *   node-a/101 node    ====  x==========  ---     -
 *   node-a/102 node          !           --------
 *
 * Events to the left of the position (v) have been played; events to the right have not been played yet.
 */
import { formatDuration } from '../print/display.ts';
import { fitText, type Line, measureWidth, type Span, type Style, span } from './styled_text.ts';
import type { CallMark, PlayedThread } from './time_line.ts';

export interface Glyphs {
  played: string;
  toCome: string;
  failed: string;
  afterTimeout: string;
  place: string;
  line: string;
  states: Readonly<Record<'ready' | 'playing' | 'paused' | 'finished' | 'stopped', string>>;
}

export const UNICODE: Glyphs = {
  played: '█',
  toCome: '░',
  failed: '×',
  afterTimeout: '!',
  place: '▼',
  line: '│',
  states: { ready: '■', playing: '▶', paused: '‖', finished: '■', stopped: '■' },
};

export const ASCII: Glyphs = {
  played: '=',
  toCome: '-',
  failed: 'x',
  afterTimeout: '!',
  place: 'v',
  line: '|',
  states: { ready: '#', playing: '>', paused: '|', finished: '#', stopped: '#' },
};

export interface LanesWindow {
  fromNs: number;
  toNs: number;
  columns: number;
}

/**
 * Maximum number of times that the view is halved. 40 halvings reduce even a replay of a day to 79 ns, which is about a
 * nanosecond per column.
 */
export const ZOOM_MAX = 40;

/**
 * Returns the visible part of the replay around the position. The whole replay is halved until a lane has about two
 * columns per event; `zoom` adds further halvings.
 */
export function computeView(
  placeNs: number,
  replay: { durationNs: number; eventsOfThread: number; zoom: number },
  columns: number,
): LanesWindow {
  const durationNs = Math.max(replay.durationNs, 1);
  const crowded = Math.max(0, Math.ceil(Math.log2((2 * replay.eventsOfThread) / columns)));
  const halvings = Math.min(Math.max(crowded + replay.zoom, 0), ZOOM_MAX);
  const spanNs = Math.max(durationNs / 2 ** halvings, columns);
  if (spanNs >= durationNs) return { fromNs: 0, toNs: Math.max(durationNs, columns), columns };
  // The view moves by whole columns. Otherwise, rounding would change the length of the bars while it moves.
  const columnNs = spanNs / columns;
  const middleNs = Math.floor((placeNs - spanNs / 2) / columnNs) * columnNs;
  const fromNs = Math.min(Math.max(middleNs, 0), durationNs - spanNs);
  return { fromNs, toNs: fromNs + spanNs, columns };
}

/** Returns the column of a time. The column may be outside of the view. */
export function computeColumn({ fromNs, toNs, columns }: LanesWindow, ns: number): number {
  return Math.floor(((ns - fromNs) / (toNs - fromNs)) * columns);
}

export function buildAxisLine(view: LanesWindow, placeNs: number, labelWidth: number, glyphs: Glyphs): Line {
  const place = Math.min(Math.max(computeColumn(view, placeNs), 0), view.columns - 1);
  const from = `+${formatDuration(BigInt(Math.round(view.fromNs)))}`;
  const to = `+${formatDuration(BigInt(Math.round(view.toNs)))}`;
  const gap = view.columns - from.length - to.length;
  const cells = [...(gap > 0 ? from + ' '.repeat(gap) + to : ' '.repeat(view.columns))];
  cells[place] = glyphs.place;
  return [
    span(' '.repeat(labelWidth) + cells.slice(0, place).join(''), 'dim'),
    span(glyphs.place, 'cyan'),
    span(cells.slice(place + 1).join(''), 'dim'),
  ];
}

/**
 * Builds at most `rows` lines, one for each thread. If there are too few rows, threads without events in the view are
 * left out first. The order of the threads never changes.
 */
export function buildLaneLines(
  threads: readonly PlayedThread[],
  marks: Iterable<CallMark>,
  layout: { view: LanesWindow; placeNs: number; rows: number; labelWidth: number; glyphs: Glyphs },
): Line[] {
  const { view, placeNs, rows, labelWidth, glyphs } = layout;
  if (rows <= 0) return [];
  const lanes: (LaneCell[] | undefined)[] = [];
  const place = computeColumn(view, placeNs);
  for (const mark of marks) draw(lanes, mark, view);
  const shown = selectShownThreads(threads, lanes, rows);
  const lines: Line[] = shown.map((at) => [
    span(fitText(formatThreadLabel(threads[at]!), labelWidth - 1)),
    span(' '),
    ...buildLaneSpans(lanes[at] ?? [], place, view.columns, glyphs),
  ]);
  const hidden = threads.length - shown.length;
  return hidden > 0 ? [...lines, [span(`and ${hidden} more threads`, 'dim')]] : lines;
}

export function computeLabelWidth(threads: readonly PlayedThread[], columns: number): number {
  const widest = Math.max(0, ...threads.map((thread) => measureWidth(formatThreadLabel(thread))));
  return Math.min(widest + 1, Math.max(Math.floor(columns / 4), 1));
}

function formatThreadLabel({ node, tid, comm }: PlayedThread): string {
  return span(`${tid} ${comm} ${node}`).text;
}

function selectShownThreads(
  threads: readonly PlayedThread[],
  lanes: readonly (LaneCell[] | undefined)[],
  rows: number,
): number[] {
  const all = threads.map((_, at) => at);
  if (all.length <= rows) return all;
  // The last row reports how many threads are left out.
  const busy = all.filter((at) => lanes[at]);
  const idle = all.filter((at) => !lanes[at]);
  return [...busy, ...idle].slice(0, rows - 1).sort((a, b) => a - b);
}

type LaneCell = 'bar' | 'after_timeout' | 'failed';
const RANK: Readonly<Record<LaneCell, number>> = { bar: 0, after_timeout: 1, failed: 2 };

function draw(lanes: (LaneCell[] | undefined)[], mark: CallMark, view: LanesWindow): void {
  const first = computeColumn(view, mark.startNs);
  const last = computeColumn(view, mark.startNs + mark.durationNs);
  if (last < 0 || first >= view.columns) return;
  lanes[mark.thread] ??= [];
  const lane = lanes[mark.thread]!;
  // The outcome of an event is drawn at its start, or in its first visible column.
  const told: LaneCell = mark.failed ? 'failed' : mark.afterTimeout ? 'after_timeout' : 'bar';
  const start = Math.max(first, 0);
  for (let column = start; column <= Math.min(last, view.columns - 1); column++) {
    const cell = column === start ? told : 'bar';
    const before = lane[column];
    if (before === undefined || RANK[cell] > RANK[before]) lane[column] = cell;
  }
}

function buildLaneSpans(lane: readonly LaneCell[], place: number, columns: number, glyphs: Glyphs): Span[] {
  const spans: { text: string; style?: Style | undefined }[] = [];
  for (let column = 0; column < columns; column++) {
    const [text, style] = chooseGlyph(lane[column], column - place, glyphs);
    const last = spans.at(-1);
    if (last && last.style === style) last.text += text;
    else spans.push({ text, style });
  }
  return spans;
}

function chooseGlyph(cell: LaneCell | undefined, fromPlace: number, glyphs: Glyphs): [string, Style | undefined] {
  if (cell === 'failed') return [glyphs.failed, 'red'];
  if (cell === 'after_timeout') return [glyphs.afterTimeout, 'yellow'];
  if (cell === 'bar') return fromPlace <= 0 ? [glyphs.played, 'green'] : [glyphs.toCome, 'dim'];
  return fromPlace === 0 ? [glyphs.line, 'cyan'] : [' ', undefined];
}
