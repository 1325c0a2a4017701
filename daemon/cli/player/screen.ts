/** Renders the screen as lines from the player's state, the size and the time. This file performs no I/O. */
import { formatTime } from '../../base/time_text.ts';
import { formatDuration } from '../print/display.ts';
import { describeEvent } from '../print/event_table.ts';
import { KEYS } from './keys.ts';
import {
  buildAxisLine,
  buildLaneLines,
  computeLabelWidth,
  computeView,
  type Glyphs,
  type LanesWindow,
} from './lanes.ts';
import { formatLateness, formatPlayedBytes, formatRemarks } from './played_text.ts';
import { computePositionNs, type MarkedEvent, type PlayerState } from './player_state.ts';
import { cut, fitText, type Line, measureWidth, type Style, span } from './styled_text.ts';
import type { CallMark } from './time_line.ts';

export interface Size {
  columns: number;
  rows: number;
}

/** Returns at most `rows` lines of at most `columns` columns. */
export function renderScreen(state: PlayerState, { columns, rows }: Size, nowMs: number, glyphs: Glyphs): Line[] {
  const placeNs = computePositionNs(state, nowMs);
  const bottom = buildBottomLines(state, columns);
  // Parts in order of priority. If the terminal has too few rows, the last parts are cut first.
  const wanted: Record<string, Line[]> = {
    status: [buildStatusLine(state, glyphs)],
    progress: [buildProgressLine(state, placeNs, columns, glyphs)],
    bottom,
    place: [placeLine(state, placeNs)],
    title: [buildTitleLine(state)],
    lateness: [[span(formatLateness(state.lateness))]],
  };
  let left = rows;
  const parts: Record<string, Line[]> = {};
  for (const [name, lines] of Object.entries(wanted)) {
    parts[name] = lines.slice(0, left);
    left -= parts[name].length;
  }
  const laneRows = Math.min(state.threads.list.length + 1, Math.max(Math.ceil(left / 2), left - state.recent.length));
  const lanes = left > 1 ? buildLaneArea(state, placeNs, columns, laneRows, glyphs) : [];
  const events = buildEventLines(state.recent, left - lanes.length, columns);
  const blank: Line[] = Array.from({ length: Math.max(left - lanes.length - events.length, 0) }, () => []);
  const order = [parts.title, parts.status, lanes, parts.progress, parts.place, parts.lateness, events, blank];
  return [...order, parts.bottom].flatMap((lines) => lines!.map((line) => cut(line, columns)));
}

function buildTitleLine({ session, services, nodes }: PlayerState): Line {
  const list = (name: string, values: readonly string[]) =>
    values.length > 0 ? [span(`  ${name} `, 'dim'), span(values.join(', '))] : [];
  return [span(session.transaction_id, 'bold'), ...list('services', services), ...list('nodes', nodes)];
}

const STATE_STYLES: Readonly<Partial<Record<PlayerState['session']['state'], Style>>> = {
  playing: 'green',
  paused: 'yellow',
};

function buildStatusLine({ session }: PlayerState, glyphs: Glyphs): Line {
  const { state, speed_factor, event_index, event_count, extra_latency_ns, timeout_ns, times_out } = session;
  const verdict = times_out === null ? '' : times_out ? ': not kept' : ': kept';
  const timeout = timeout_ns === null ? '' : `  timeout ${formatNs(timeout_ns)}${verdict}`;
  return [
    span(`${glyphs.states[state]} ${state}`, STATE_STYLES[state] ?? 'bold'),
    span(`  speed ${speed_factor}`),
    span(`  event ${event_index}/${event_count}`),
    span(BigInt(extra_latency_ns) > 0n ? `  latency +${formatNs(extra_latency_ns)}` : ''),
    span(timeout, times_out ? 'yellow' : undefined),
  ];
}

function buildLaneArea(state: PlayerState, placeNs: number, columns: number, rows: number, glyphs: Glyphs): Line[] {
  const threads = state.threads.list;
  const labelWidth = computeLabelWidth(threads, columns);
  const view = computeScreenView(state, placeNs, columns, state.zoom);
  const layout = { view, placeNs, rows: rows - 1, labelWidth, glyphs };
  return [buildAxisLine(view, placeNs, labelWidth, glyphs), ...buildLaneLines(threads, mergeMarks(state), layout)];
}

/**
 * Computes the view. Its axis ends at the end of the duration or, if the position is in the write-back after it, at the
 * end of the write-back.
 */
function computeScreenView(
  { session, durationNs, endNs, threads }: PlayerState,
  placeNs: number,
  columns: number,
  zoom: number,
): LanesWindow {
  const eventsOfThread = session.event_count / Math.max(threads.list.length, 1);
  const shownNs = placeNs <= Number(durationNs) ? durationNs : endNs;
  const replay = { durationNs: Number(shownNs), eventsOfThread, zoom };
  return computeView(placeNs, replay, Math.max(columns - computeLabelWidth(threads.list, columns), 1));
}

/** Returns the zoom changed by one step, or the same zoom if the view would not change. */
export function findNextZoom(state: PlayerState, by: 1 | -1, columns: number): number {
  const computeShownNs = (zoom: number) => {
    const { fromNs, toNs } = computeScreenView(state, 0, columns, zoom);
    return toNs - fromNs;
  };
  return computeShownNs(state.zoom + by) === computeShownNs(state.zoom) ? state.zoom : state.zoom + by;
}

/**
 * Yields one mark per event. Marks that were read ahead take precedence, because they follow the current time line. The
 * mark of a played event may be from an earlier time line.
 */
function* mergeMarks({ ahead, recent }: PlayerState): Generator<CallMark> {
  yield* ahead;
  for (const { event, mark } of recent) if (event.replay.index >= ahead.length) yield mark;
}

function buildProgressLine(state: PlayerState, placeNs: number, columns: number, glyphs: Glyphs): Line {
  const durationNs = Number(state.durationNs);
  const later = state.endNs > state.durationNs ? `, written back until ${formatNs(state.endNs)}` : '';
  const text = ` ${formatNs(Math.floor(placeNs))} of ${formatNs(state.durationNs)}${later}`;
  const barColumns = columns - text.length;
  if (barColumns < 4) return [span(text.trim())];
  const filled = placeNs >= durationNs ? barColumns : Math.floor((barColumns * placeNs) / durationNs);
  return [
    span(glyphs.played.repeat(filled), 'green'),
    span(glyphs.toCome.repeat(barColumns - filled), 'dim'),
    span(text),
  ];
}

/** Formats the recorded time of day, and the wall-clock time that the replay takes at its speed. */
function placeLine(state: PlayerState, placeNs: number): Line {
  const { speed_factor } = state.session;
  const passed = formatNs(Math.floor(placeNs / speed_factor));
  const whole = formatNs(Math.floor(Number(state.endNs) / speed_factor));
  return [
    span(`recorded ${formatTime(computeRecordedTimeNs(state, placeNs))}`),
    span(`  wall time ${passed} of ${whole}`),
  ];
}

/**
 * Returns the recorded time at a position of the replay. With extra latency, the times of the replay and of the
 * recording differ, so the time of the previous event is used. After the latency is removed, this still applies if the
 * latency had moved the previous event.
 */
function computeRecordedTimeNs({ session, recent, firstTimestampNs }: PlayerState, placeNs: number): bigint {
  const before = recent.at(-1)?.event;
  const beforeNs = BigInt(before?.timestamp_ns ?? firstTimestampNs);
  const isMoved = beforeNs - firstTimestampNs !== BigInt(before?.replay.offset_ns ?? 0);
  if (isMoved || BigInt(session.extra_latency_ns) > 0n) return beforeNs;
  return firstTimestampNs + BigInt(Math.floor(placeNs));
}

/** Width of an event's line without the description of its call. The width includes room for an error. */
const EVENT_COLUMNS = 69;
const WHAT_COLUMNS_MIN = 16;

function buildEventLines(recent: readonly MarkedEvent[], rows: number, columns: number): Line[] {
  const whatColumns = Math.max(columns - EVENT_COLUMNS, WHAT_COLUMNS_MIN);
  return (rows > 0 ? recent.slice(-rows) : []).map(({ event }) => {
    const { replay } = event;
    const remark = formatRemarks(event);
    const style = event.error !== null ? 'red' : replay.after_timeout ? 'yellow' : undefined;
    return [
      span(`${replay.index}`.padStart(6), 'dim'),
      span(`+${formatNs(replay.offset_ns)}`.padStart(12)),
      span(formatNs(replay.duration_ns).padStart(11)),
      span(`  ${event.tid}`.padEnd(9), 'dim'),
      span(fitText(span(describeEvent(event)).text, whatColumns)),
      span(formatPlayedBytes(event).padStart(9)),
      span(remark && `  ${remark}`, style),
    ];
  });
}

function buildBottomLines({ message, helpShown }: PlayerState, columns: number): Line[] {
  if (message !== '') return [[span(message, 'yellow')]];
  return helpShown ? buildKeyLines(columns) : [[span('? keys', 'dim')]];
}

function buildKeyLines(columns: number): Line[] {
  const lines: string[] = [];
  for (const key of KEYS) {
    const last = lines.at(-1);
    if (last !== undefined && measureWidth(last) + 2 + key.length <= columns)
      lines[lines.length - 1] = `${last}  ${key}`;
    else lines.push(key);
  }
  return lines.map((line) => [span(line, 'dim')]);
}

function formatNs(value: number | bigint): string {
  return formatDuration(BigInt(value));
}
