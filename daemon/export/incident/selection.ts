/**
 * Selects the events to export and the window of time that they cover. The losses and clock steps of this window are
 * exported too.
 */

import type { ClockStep, Loss } from '../../../agent/recording/format/losses.ts';
import { computeWholeEndNs } from '../../../agent/recording/read/transactions.ts';
import { createUnendedTest, type RecordedUnended, type UnendedLists } from '../../../agent/recording/read/unended.ts';
import type { EventType } from '../../../bpf/schema/index.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';
import { U64_MAX } from '../../base/bigints.ts';
import { resolveTime, type TimeExpression } from '../../base/time.ts';
import type { TimeRange } from '../../contract/time_range.ts';
import type { EventFilter } from '../../store/store.ts';
import { buildClockSpans } from '../clock_spans.ts';
import { ExportError } from '../errors.ts';
import type { Source } from '../source.ts';

export interface SelectionOptions {
  transactionId?: string | undefined;
  /**
   * If greater than 0, the export contains the events of all processes in a window that begins this long before the
   * transaction and ends this long after it.
   */
  contextNs: bigint;
  from?: TimeExpression | undefined;
  to?: TimeExpression | undefined;
  services?: readonly string[] | undefined;
  eventTypes?: readonly EventType[] | undefined;
}

export interface ExportSelection {
  readonly filter: EventFilter;
  /** The window `[fromNs, toNs)`; an undefined bound means no limit. */
  readonly window: TimeRange;
  /** The exported transaction; undefined if a time is exported. */
  readonly transactionId?: string | undefined;
}

export function buildSelection(source: Source, options: SelectionOptions, nowNs: bigint): ExportSelection {
  const { services, eventTypes, transactionId } = options;
  const narrowed = { ...(services && { services }), ...(eventTypes && { eventTypes }) };
  if (transactionId === undefined) {
    const window = resolveWindow(options, nowNs);
    return { filter: { ...window, ...narrowed }, window, transactionId };
  }
  const window = findTransactionWindow(source, transactionId, options.contextNs);
  const chosen = options.contextNs > 0n ? window : { transactionId };
  return { filter: { ...chosen, ...narrowed }, window, transactionId };
}

function resolveWindow({ from, to }: SelectionOptions, nowNs: bigint): TimeRange {
  const fromNs = from && resolveTime(from, nowNs);
  const toNs = to && resolveTime(to, nowNs);
  if (fromNs !== undefined && toNs !== undefined && fromNs >= toNs)
    throw new ExportError('--from must be earlier than --to');
  return { ...(fromNs !== undefined && { fromNs }), ...(toNs !== undefined && { toNs }) };
}

function findTransactionWindow(source: Source, transactionId: string, contextNs: bigint): TimeRange {
  const transaction = source.reader.readTransaction(transactionId);
  if (!transaction)
    throw new ExportError(`${source.path} has no transaction ${transactionId}: check the id, or name its --recording`);
  const { firstTimestampNs } = transaction;
  const fromNs = firstTimestampNs > contextNs ? firstTimestampNs - contextNs : 0n;
  return { fromNs, toNs: computeWholeEndNs(transaction) + contextNs + 1n };
}

/**
 * Lists the losses of the window. The list includes events without a recorded end: calls and requests that are in
 * progress now, or that were in progress when an agent ended. Each of these events counts as missing from its start on.
 */
export function listLosses(
  { reader }: Source,
  { filter, window: { fromNs = 0n, toNs = U64_MAX + 1n } }: ExportSelection,
  { events, lost, unlisted }: UnendedLists,
): Loss[] {
  const untilNs = reader.recordedSpan()?.toNs ?? 0n;
  const isOfTransaction = filter.transactionId !== undefined;
  const isWithin = ({ timestamp_ns }: RecordedUnended) => timestamp_ns >= fromNs && timestamp_ns < toNs;
  const isWanted = createUnendedTest(filter);
  const own = (all: readonly RecordedUnended[]) =>
    all.filter((event) => isWanted(event) && (isOfTransaction || isWithin(event)));
  // If an event started after the end of the window, its loss begins at that end. Otherwise, the loss would be outside
  // of the window.
  const buildLoss = (startNs: bigint, endNs: bigint, eventType: Loss['eventType'], count: number): Loss => ({
    cause: IN_PROGRESS,
    eventType,
    count,
    fromNs: toNs < startNs ? toNs : startNs,
    toNs: endNs > startNs ? endNs : startNs,
  });
  // `reader.losses` already includes the lost events that began within the window.
  const later = own(lost).filter((event) => !isWithin(event));
  const count = isOfTransaction ? unlisted.labelled : unlisted.count;
  const others = count > 0 && unlisted.sinceNs < toNs ? [{ ...unlisted, count }] : [];
  // A bundle of a transaction has no losses of others; a bundle of a time has the losses of each transaction.
  const { transactionId } = filter;
  return [
    ...reader.losses(fromNs, toNs, transactionId === undefined ? 'all' : { transactionId }),
    ...later.map(({ timestamp_ns, event_type }) => buildLoss(timestamp_ns, timestamp_ns, event_type, 1)),
    ...own(events).map(({ timestamp_ns, event_type }) => buildLoss(timestamp_ns, untilNs, event_type, 1)),
    ...others.map(({ sinceNs, count }) => buildLoss(sinceNs, untilNs, null, count)),
  ];
}

const IN_PROGRESS: LossCause = 'in_progress';

/** Returns the clock steps whose offset applied at some time within the window. */
export function selectClockSteps({ reader }: Source, { fromNs = 0n, toNs }: TimeRange): ClockStep[] {
  return buildClockSpans(reader.clockSteps())
    .filter((span) => toNs === undefined || span.fromNs < toNs)
    .filter((span) => span.toNs === undefined || span.toNs > fromNs)
    .map(({ step }) => step);
}
