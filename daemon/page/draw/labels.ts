/** Places texts in the bars of events: a bar has a text only if the text fits and the event is visible. */
import { getThread } from '../../model/columns/event_columns.ts';
import { callName, type Lane, type LanesModel } from '../../model/lanes/model.ts';
import type { LaneTrack } from '../../model/lanes/tracks.ts';
import { formatBytes } from '../../model/wording/amounts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import type { Bins } from './bins.ts';
import type { View } from './view.ts';

export interface Label {
  /** Left edge of the text, in CSS pixels. */
  xPx: number;
  widthPx: number;
  text: string;
  row: number;
}

/** Maximum number of labels: nobody would read more labels, and they would slow down a frame. */
export const LABELS_MAX = 300;
const LEAST_WIDTH_PX = 24;
const PADDING_PX = 4;

/**
 * Places the labels of a track: each bar that is wide enough gets the first text that fits it. `measure` returns the
 * width of a text in CSS pixels; `most` is the number of labels that may be added.
 */
export function placeLabels(
  { rows }: LaneTrack,
  bins: Bins,
  view: View,
  listTexts: (row: number) => readonly string[],
  measure: (text: string) => number,
  most = LABELS_MAX,
): Label[] {
  const labels: Label[] = [];
  const { longest } = bins;
  const least = Math.ceil((LEAST_WIDTH_PX + 2 * PADDING_PX) * view.dpr);
  for (let from = 0, to = 0; from + least <= longest.length && labels.length < most; from = to) {
    // A bar with room for a text is at least `least` columns wide, so most columns need not be visited.
    const place = longest[from + least - 1]!;
    to = from + least - 1;
    while (to > from && longest[to - 1] === place) to--;
    if (to > from) continue;
    to = from + least;
    while (to < longest.length && longest[to] === place) to++;
    if (place < 0) continue;
    const row = rows[place]!;
    const roomPx = (to - from) / view.dpr - 2 * PADDING_PX;
    const text = listTexts(row).find((one) => measure(one) <= roomPx);
    if (text !== undefined) labels.push({ xPx: from / view.dpr + PADDING_PX, widthPx: roomPx, text, row });
  }
  return labels;
}

/** Lists the texts of an event in a lane; the longest text comes first. */
export function labelTexts(
  { columns }: LanesModel,
  { kind }: Lane,
  row: number,
  shown: (name: string) => string = (text) => text,
): string[] {
  const durationNs = columns.duration[row]!;
  const duration = formatShortDuration(durationNs);
  if (kind === 'thread') {
    const call = shown(callName(columns, row));
    return [`${call} ${duration}`, call];
  }
  const queueNs = columns.queue[row]!;
  // If the queue took more than half of the request's time, the label shows the time in the queue.
  const isQueued = queueNs > durationNs / 2;
  if (kind === 'own_requests') return isQueued ? [`queued ${formatShortDuration(queueNs)}`, duration] : [duration];
  const { service, comm } = getThread(columns, row);
  const name = shown(service || comm);
  const bytes = columns.bytes[row]!;
  return bytes > 0 ? [`${name} ${formatBytes(bytes)}`, name] : [name];
}
