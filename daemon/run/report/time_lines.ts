/**
 * Draws the calls of the incident and of the run as SVG on one time scale. Each path has a lane, in which the
 * incident's calls are drawn above the run's calls.
 */
import type { DelayPlan } from '../plan/compile.ts';
import { escapeMarkup } from './markup.ts';
import { isMatched } from './match_kinds.ts';
import { findEventStream } from './planned_streams.ts';
import type { CallReport } from './read_report.ts';
import { formatShortDuration } from './summary.ts';

const LANES_MAX = 12;
const WIDTH = 1200;
const LABEL_WIDTH = 320;
const HALF_HEIGHT = 16;
const LANE_HEIGHT = 2 * HALF_HEIGHT + 14;
const TICKS = 6;
const LABEL_CHARACTERS_MAX = 44;

interface StreamLane {
  label: string;
  /** The longest wait in nanoseconds that begins at each pixel, in the plan and in the run. */
  planned: Float64Array;
  run: Float64Array;
  totalNs: number;
}

export function timeLines(plan: DelayPlan, calls: CallReport): string {
  const endNs = Math.max(endOfPlan(plan), endOfRun(calls), 1);
  const lanes = collectLanes(plan, calls, endNs);
  const shown = lanes.toSorted((one, other) => other.totalNs - one.totalNs).slice(0, LANES_MAX);
  const height = shown.length * LANE_HEIGHT + 30;
  const rest = lanes.length - shown.length;
  return [
    `<svg viewBox="0 0 ${LABEL_WIDTH + WIDTH} ${height}" role="img" aria-label="calls of incident and run over time">`,
    ...buildTicks(endNs, height),
    ...shown.flatMap((lane, number) => buildLaneSvg(lane, number * LANE_HEIGHT, endNs)),
    '</svg>',
    rest > 0 ? `<p>and ${rest} more paths with shorter waits</p>` : '',
  ].join('\n');
}

/**
 * Collects the lanes: one for each merged stream of the helper with a matched call, and one for each recorded stream
 * that no call matched.
 */
function collectLanes(plan: DelayPlan, calls: CallReport, endNs: number): StreamLane[] {
  const laneOfStream = new Map<number, StreamLane>();
  const laneOfMerged = new Map<number, StreamLane>();
  const lanes: StreamLane[] = [];
  const createLane = (stream: number): StreamLane => {
    const { op, path, comm } = plan.streams[stream]!;
    const label = `${op} ${path || '?'} (${comm})`;
    const lane = { label, planned: new Float64Array(WIDTH), run: new Float64Array(WIDTH), totalNs: 0 };
    lanes.push(lane);
    return lane;
  };
  for (let at = 0; at < calls.count; at++) {
    const event = calls.event[at]!;
    if (event >= plan.eventCount || !isMatched(calls.how[at]!)) continue;
    const stream = findEventStream(plan, event);
    const lane = laneOfMerged.get(calls.stream[at]!) ?? laneOfStream.get(stream) ?? createLane(stream);
    laneOfMerged.set(calls.stream[at]!, lane);
    if (!laneOfStream.has(stream)) laneOfStream.set(stream, lane);
  }
  for (let at = 0; at < calls.count; at++) {
    const lane = laneOfMerged.get(calls.stream[at]!);
    if (lane) mark(lane.run, calls.receivedNs[at]!, calls.heldNs[at]!, endNs);
  }
  const { events, slots } = plan;
  for (const [slot, stream] of slots.stream.entries()) {
    const lane = laneOfStream.get(stream) ?? createLane(stream);
    laneOfStream.set(stream, lane);
    const first = slots.firstEvent[slot]!;
    for (let event = first; event < first + slots.eventCount[slot]!; event++) {
      mark(lane.planned, events.offset_ns[event]!, events.target_ns[event]!, endNs);
      lane.totalNs += events.target_ns[event]!;
    }
  }
  return lanes;
}

function mark(pixels: Float64Array, startNs: number, lengthNs: number, endNs: number): void {
  const at = Math.min(Math.max(Math.floor((startNs / endNs) * WIDTH), 0), WIDTH - 1);
  pixels[at] = Math.max(pixels[at]!, lengthNs, 1);
}

function buildLaneSvg({ label, planned, run }: StreamLane, top: number, endNs: number): string[] {
  const short =
    label.length > LABEL_CHARACTERS_MAX ? `${label.slice(0, 12)}…${label.slice(13 - LABEL_CHARACTERS_MAX)}` : label;
  return [
    `<text x="4" y="${top + HALF_HEIGHT + 4}"><title>${escapeMarkup(label)}</title>${escapeMarkup(short)}</text>`,
    ...buildBars(planned, top, 'planned', endNs),
    ...buildBars(run, top + HALF_HEIGHT + 2, 'run', endNs),
  ];
}

function buildBars(pixels: Float64Array, top: number, kind: string, endNs: number): string[] {
  const found: string[] = [];
  pixels.forEach((lengthNs, at) => {
    if (lengthNs === 0) return;
    const width = Math.min(Math.max((lengthNs / endNs) * WIDTH, 1), WIDTH - at).toFixed(1);
    const title = `<title>${formatShortDuration((at / WIDTH) * endNs)}: ${formatShortDuration(lengthNs)}</title>`;
    const place = `x="${LABEL_WIDTH + at}" y="${top}" width="${width}" height="${HALF_HEIGHT}"`;
    found.push(`<rect class="${kind}" ${place}>${title}</rect>`);
  });
  return found;
}

function buildTicks(endNs: number, height: number): string[] {
  return Array.from({ length: TICKS + 1 }, (_, number) => {
    const x = LABEL_WIDTH + (WIDTH * number) / TICKS;
    const anchor = number === TICKS ? 'end' : 'middle';
    const label = `<text x="${x}" y="${height - 4}" text-anchor="${anchor}">${formatShortDuration((endNs * number) / TICKS)}</text>`;
    return `<line x1="${x}" x2="${x}" y1="0" y2="${height - 18}"/>${label}`;
  });
}

function endOfPlan({ events, eventCount }: DelayPlan): number {
  let end = 0;
  for (let event = 0; event < eventCount; event++)
    end = Math.max(end, events.offset_ns[event]! + events.target_ns[event]!);
  return end;
}

function endOfRun({ receivedNs, heldNs, count }: CallReport): number {
  let end = 0;
  for (let at = 0; at < count; at++) end = Math.max(end, receivedNs[at]! + heldNs[at]!);
  return end;
}
