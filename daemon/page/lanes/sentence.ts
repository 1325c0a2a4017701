/**
 * The sentence with which a picture of lanes begins: how long the transaction took, what it waited for, and which
 * services or commands were in its way.
 */
import { getErrorName, getThread } from '../columns/event_columns.ts';
import { formatQuantity, percentText } from '../numbers/amounts.ts';
import { formatShortDuration, groupDigits } from '../numbers/exact_times.ts';
import { type Breakdown, type BreakdownPart, PARTS } from './breakdown.ts';
import { intersectSets, overlaps, sumLengthNs, type TimeSet } from './intervals.ts';
import { callName, type LanesModel, type TimeSpan } from './model.ts';
import { collectNeighbours, type Neighbour } from './neighbours.ts';
import { ownCalls, type RequestTimes, requestTimes } from './request_times.ts';
import { OWN } from './shares.ts';

/** Maximum number of kinds of failed calls that are named. */
const FAILURES_MAX = 2;

/**
 * Builds, for example, `order-77 of shop took 394.7 ms. 81 % was waiting in nvme1n1's queue, inside 9 fsyncs of
 * walwriter; backup had 8 requests there.` `name` is the name of the transaction, already safe to read; `shown` makes
 * recorded names safe to read.
 */
export function describeLanes(
  model: LanesModel,
  breakdown: Breakdown | null,
  name: string,
  shown: (name: string) => string = (text) => text,
): string {
  if (!breakdown) return `Nothing that ${name} itself did is here.`;
  const { durationNs, parts } = breakdown;
  const first = findFirstOwn(model);
  const service = getThread(model.columns, first).service;
  const took = `${name} of ${shown(service)} took ${formatShortDuration(durationNs)}.`;
  if (durationNs === 0) return [took, ...describeFailures(model, shown)].join(' ');
  const largest = PARTS.reduce((best, part) => (parts[part] > parts[best] ? part : best));
  const share = percentText(parts[largest] / durationNs);
  return [
    took,
    `${share} was ${describeReason(model, breakdown, largest, shown)}.`,
    ...describeFailures(model, shown),
  ].join(' ');
}

/**
 * Builds the sentence for a picture that lacks events of its transactions. The sentence names no reasons for the
 * waiting, because the missing events may show other reasons.
 */
export function describeFirstEvents(count: number, eventCount: number, name: string): string {
  return `The first ${groupDigits(count)} of ${formatQuantity(eventCount, 'event')} of ${name}: what it waited for is not known yet.`;
}

function findFirstOwn({ shares, starts }: LanesModel): number {
  let first = -1;
  for (let row = 0; row < shares.length; row++)
    if (shares[row] === OWN && (first === -1 || starts[row]! < starts[first]!)) first = row;
  return first;
}

function describeReason(
  model: LanesModel,
  { span }: Breakdown,
  part: BreakdownPart,
  shown: (name: string) => string,
): string {
  if (part === 'untraced') return 'spent on a CPU, or on something that is not recorded';
  if (part === 'write') return `inside ${formatCalls(model, 'sys_write', undefined, shown)}`;
  if (part === 'sync')
    return `inside ${formatCalls(model, 'sys_sync', undefined, shown)}, with no request of its own under way`;
  const { device, queued, whole } = findBusiestDevice(model, part, span);
  const place = device.name === null ? 'a device that is not known' : shown(device.name);
  const neighbours = collectNeighbours(model).filter((one) => one.device === device);
  if (part === 'request')
    return `with requests to ${place} under way outside its calls, for which it may have waited${formatNeighbours(neighbours, shown)}`;
  const what = part === 'queue' ? `waiting in ${place}'s queue` : `${place} working on its requests`;
  const times = part === 'queue' ? queued : whole;
  const calls = formatCalls(model, 'sys_sync', times, shown) || formatCalls(model, 'sys_write', times, shown);
  return `${what}${calls && `, inside ${calls}`}${formatNeighbours(neighbours, shown)}`;
}

function formatNeighbours([most, ...rest]: readonly Neighbour[], shown: (name: string) => string): string {
  if (!most) return '';
  const others = rest.reduce((sum, { count }) => sum + count, 0);
  const more = others > 0 ? `, and others ${groupDigits(others)}` : '';
  return `; ${shown(most.name)} had ${formatQuantity(most.count, 'request')} there${more}`;
}

/** Returns the device that spent the most time in a part; only devices with requests are compared. */
function findBusiestDevice(model: LanesModel, part: 'queue' | 'service' | 'request', span: TimeSpan): RequestTimes {
  const timeNs = ({ queued, whole, unknown }: RequestTimes) => {
    if (part === 'request') return sumLengthNs(unknown);
    return part === 'queue' ? sumLengthNs(queued) : sumLengthNs(whole) - sumLengthNs(intersectSets(whole, queued));
  };
  const devices = [...requestTimes(model, span).values()];
  return devices.reduce((most, one) => (timeNs(one) > timeNs(most) ? one : most));
}

/**
 * Formats the most frequent own calls as `9 fsyncs of walwriter`; if `times` is given, only calls that overlap them
 * count.
 */
function formatCalls(
  model: LanesModel,
  type: string,
  times: TimeSet | undefined,
  shown: (name: string) => string,
): string {
  const { columns, starts, ends } = model;
  const rows = ownCalls(model, type).filter((row) => !times || overlaps(times, starts[row]!, ends[row]!));
  // A number stands for a call of a thread, because building text keys for a million calls would take longer than
  // building their lanes.
  const byPlace = new Map<number, { row: number; count: number }>();
  for (const row of rows) {
    const place = columns.thread[row]! * columns.whats.length + columns.what[row]!;
    const known = byPlace.get(place);
    if (known) known.count++;
    else byPlace.set(place, { row, count: 1 });
  }
  const counts = new Map<string, { row: number; count: number }>();
  for (const { row, count } of byPlace.values()) {
    const key = JSON.stringify([callName(columns, row), getThread(columns, row).comm]);
    const known = counts.get(key) ?? { row, count: 0 };
    known.count += count;
    counts.set(key, known);
  }
  const [most] = [...counts.values()].sort((a, b) => b.count - a.count);
  if (!most) return '';
  return `${formatQuantity(most.count, shown(callName(columns, most.row)))} of ${shown(getThread(columns, most.row).comm)}`;
}

function rankByFrequency(
  rows: readonly number[],
  listWords: (row: number) => string[],
): { words: string[]; count: number }[] {
  const groups = Map.groupBy(rows, (row) => JSON.stringify(listWords(row)));
  return [...groups.values()]
    .map((some) => ({ words: listWords(some[0]!), count: some.length }))
    .sort((a, b) => b.count - a.count);
}

function describeFailures({ columns, shares }: LanesModel, shown: (name: string) => string): string[] {
  const failed: number[] = [];
  for (let row = 0; row < columns.count; row++) if (shares[row] === OWN && columns.result[row]! < 0) failed.push(row);
  const most = rankByFrequency(failed, (row) => [
    callName(columns, row),
    getThread(columns, row).comm,
    getErrorName(columns, row)!,
  ]);
  const texts = most.slice(0, FAILURES_MAX).map(({ words: [call, comm, error], count }) => {
    return `${formatQuantity(count, shown(call!))} of ${shown(comm!)} failed with ${error}.`;
  });
  const rest = most.slice(FAILURES_MAX).reduce((sum, { count }) => sum + count, 0);
  return rest > 0 ? [...texts, `${formatQuantity(rest, 'more call')} failed.`] : texts;
}
