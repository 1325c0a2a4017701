/**
 * The sentences at the top of an overview: which transactions or events are selected, what sets them apart, and where
 * their time went.
 */
import { max } from '../../base/bigints.ts';
import type { DifferencesAnswer, DifferentValue, MapKind } from '../../contract/received.ts';
import type { BreakdownPart } from '../../model/lanes/breakdown.ts';
import { percentText } from '../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../model/wording/exact_times.ts';
import type { LatencyMap, Selection } from './questions.ts';
import { TAIL_SHARE } from './tail.ts';
import { computeMeans, findLargestExtra } from './time_spent.ts';
import { formatRowClause, getFieldName, joinWithAnd, type NameFormatter } from './wording.ts';

const EXTRA: Readonly<Record<BreakdownPart, string>> = {
  queue: 'Waiting in the queue of a device',
  service: 'A device at work on their requests',
  sync: 'The rest of their syncs',
  write: 'The rest of their writes',
  request: 'The time of requests outside their calls, waited for or not,',
  untraced: 'Time on a CPU, or not recorded,',
};

/**
 * Describes an overview, for example `The slowest 2 % (635 of 31 740) took 55.0 ms or more; the rest 6.14 ms in the
 * median. 83 % of them used device nvme1n1 on node n2, of the rest 29 %. Waiting in its queue is 90.1 ms of the extra
 * 178 ms in the mean.` Without an answer, the sentence says only what the map shows. `shown` formats recorded names
 * for display.
 */
export function describeOverview(
  map: LatencyMap,
  selection: Selection,
  answer: DifferencesAnswer | null,
  shown: NameFormatter = (text) => text,
): string {
  if (!answer) return `${describeSelection(map, selection)}.`;
  const all = answer.selected.count + answer.others.count;
  const counts = { selected: answer.selected.count, all, isComplete: map.answer.coverage.complete };
  if (answer.selected.count === 0) return `${describeEmptySelection(map, selection)}.`;
  const first = describeSelectedShare(map.of, selection, counts, answer);
  if (answer.too_few) return `${first} Too few to compare: 30 selected and 30 others are needed.`;
  const narrowed = answer.window.narrowed ? ' They are compared with those of the same time only.' : '';
  return [first + narrowed, describeDifference(answer, shown), describeExtraTime(answer, shown)]
    .filter((text) => text !== '')
    .join(' ');
}

function describeSelection({ of, answer: { total } }: LatencyMap, { kind, box }: Selection): string {
  if (kind === 'slowest')
    return `The slowest of ${formatAmount(total.count, of)} took ${formatShortDuration(box.box_min!)} or more`;
  return kind === 'failed'
    ? `${groupDigits(total.failed)} of ${formatAmount(total.count, of)} failed`
    : `A box in ${formatAmount(total.count, of)} is selected`;
}

function describeEmptySelection({ of, answer: { total } }: LatencyMap, { kind, isFailed }: Selection): string {
  if (kind === 'failed') return `None of ${formatAmount(total.count, of)} failed`;
  return `None of ${formatAmount(total.count, of)} is in the box${isFailed ? ' and failed' : ''}`;
}

interface SelectionCounts {
  selected: number;
  all: number;
  isComplete: boolean;
}

function describeSelectedShare(
  of: MapKind,
  selection: Selection,
  counts: SelectionCounts,
  answer: DifferencesAnswer,
): string {
  const { selected, all, isComplete } = counts;
  const atLeast = isComplete ? '' : 'at least ';
  const share = tailText(selected / all);
  // The daemon's medians have an error of up to 1/128, so a median may be below the selection's shortest duration.
  const medianNs = max(BigInt(answer.selected.median.duration_ns), selection.box.box_min ?? 0n);
  const took = `${atLeast}${formatShortDuration(medianNs)} in the median`;
  const othersNs = answer.others.median.duration_ns;
  const rest = answer.others.count > 0 ? `; the rest ${atLeast}${formatShortDuration(othersNs)}` : '';
  if (selection.kind === 'slowest') {
    const least = formatShortDuration(selection.box.box_min!);
    if (answer.others.count === 0) return `All of ${atLeast}${formatAmount(all, of)} took ${atLeast}${least} or more.`;
    const which = `The slowest ${share} (${atLeast}${groupDigits(selected)} of ${atLeast}${formatCount(all, of)})`;
    return `${which} took ${least} or more${rest} in the median.`;
  }
  const which = `${atLeast}${groupDigits(selected)} of ${atLeast}${formatCount(all, of)}`;
  const where = selection.kind === 'failed' ? ' failed' : ` are in the box${selection.isFailed ? ' and failed' : ''}`;
  return `${capitalize(which)}${where} (${percentText(selected / all)}): they took ${took}${rest}.`;
}

/**
 * Formats a share. A share close to 2 % is written as 2 %, because the number of slowest transactions is rounded up.
 */
function tailText(share: number): string {
  return Math.abs(share - TAIL_SHARE) < 0.0005 ? `${TAIL_SHARE * 100} %` : percentText(share);
}

function formatAmount(count: number, of: MapKind): string {
  return `${groupDigits(count)} ${count === 1 ? of.slice(0, -1) : of}`;
}

function formatCount(count: number, of: MapKind): string {
  return of === 'transactions' ? groupDigits(count) : formatAmount(count, of);
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Returns the share of the selected entries that have a value, and the share of the other entries that have it. */
export function computeValueShares({ selected, others }: DifferencesAnswer, value: DifferentValue): [number, number] {
  return [value.selected / selected.count, value.others / others.count];
}

function isMoreFrequent(answer: DifferencesAnswer, value: DifferentValue): boolean {
  const [own, other] = computeValueShares(answer, value);
  return own > other;
}

/** Finds the first difference whose values are more frequent in the selection. */
function findNamedRow(answer: DifferencesAnswer) {
  return answer.differences.find(({ values }) => isMoreFrequent(answer, values[0]!));
}

/**
 * Describes what most distinguishes the selection: a value that is more frequent in it or, without such a value, a
 * value that is less frequent in it.
 */
function describeDifference(answer: DifferencesAnswer, shown: NameFormatter): string {
  const named = findNamedRow(answer);
  const row = named ?? answer.differences[0];
  if (!row) return `No difference outside noise${formatLeftOut(answer)}.`;
  const [own, other] = computeValueShares(answer, row.values[0]!);
  const clause = formatRowClause(row.values, answer.of, shown);
  const some = own === 0 ? 'None' : `${named ? '' : 'Only '}${percentText(own)}`;
  return `${some} of them ${clause}, of the rest ${percentText(other)}.`;
}

function formatLeftOut({ left_out }: DifferencesAnswer): string {
  return left_out.length === 0 ? '' : `; not compared: ${joinWithAnd(left_out.map(getFieldName))}`;
}

/**
 * Describes the part of the time that explains most of the selection's extra time. Means are compared, because the
 * medians of parts do not add up.
 */
function describeExtraTime(answer: DifferencesAnswer, shown: NameFormatter): string {
  const extra = findLargestExtra(computeMeans(answer.selected), computeMeans(answer.others));
  if (!extra) return '';
  const what = (extra.part === 'queue' && queueText(answer, shown)) || EXTRA[extra.part];
  // One part can have more extra time than the whole if other parts took less time.
  const whole = extra.ns > extra.ofNs ? 'more' : `of the extra ${formatShortDuration(extra.ofNs)}`;
  return `${what} is ${formatShortDuration(extra.ns)} ${whole} in the mean.`;
}

/** Describes the wait in the queue of the device that the difference names; undefined if the difference names none. */
function queueText(answer: DifferencesAnswer, shown: NameFormatter): string | undefined {
  const values = findNamedRow(answer)?.values ?? [];
  if (values.some(({ field }) => field === 'device')) return 'Waiting in its queue';
  const neighbour = values.find(({ device }) => device !== undefined);
  return neighbour && `Waiting in the queue of ${shown(neighbour.device!)}`;
}
