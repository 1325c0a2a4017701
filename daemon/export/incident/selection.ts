/** Selects the events to export and the time that they cover; losses and clock steps of that time are exported too. */
import { wholeEndOf } from '../../../agent/recording/read/transactions.ts';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { type EventType, eventById } from '../../../bpf/schema/index.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';
import { resolveTime, type TimeExpression } from '../../query/time.ts';
import type { TimeRange } from '../../query/time_range.ts';
import type { EventFilter } from '../../store/store.ts';
import { clockSpans } from '../clock_spans.ts';
import { ExportError } from '../errors.ts';
import type { ClockStep, Loss, Source } from '../source.ts';

export interface SelectionOptions {
  transactionId?: string | undefined;
  /**
   * If more than 0, everything is exported from this long before the transaction to this long after it, whichever
   * process did it.
   */
  contextNs: bigint;
  from?: TimeExpression | undefined;
  to?: TimeExpression | undefined;
  services?: readonly string[] | undefined;
  eventTypes?: readonly EventType[] | undefined;
}

export interface Selection {
  readonly filter: EventFilter;
  /** The window `[fromNs, toNs)`, as far as it is bounded. */
  readonly window: TimeRange;
}

export function selectionOf(source: Source, options: SelectionOptions, nowNs: bigint): Selection {
  const { services, eventTypes, transactionId } = options;
  const narrowed = { ...(services && { services }), ...(eventTypes && { eventTypes }) };
  if (transactionId === undefined) {
    const window = windowOf(options, nowNs);
    return { filter: { ...window, ...narrowed }, window };
  }
  const window = transactionWindow(source, transactionId, options.contextNs);
  const chosen = options.contextNs > 0n ? window : { transactionId };
  return { filter: { ...chosen, ...narrowed }, window };
}

function windowOf({ from, to }: SelectionOptions, nowNs: bigint): TimeRange {
  const fromNs = from && resolveTime(from, nowNs);
  const toNs = to && resolveTime(to, nowNs);
  if (fromNs !== undefined && toNs !== undefined && fromNs >= toNs)
    throw new ExportError('--from must be earlier than --to');
  return { ...(fromNs !== undefined && { fromNs }), ...(toNs !== undefined && { toNs }) };
}

function transactionWindow(source: Source, transactionId: string, contextNs: bigint): TimeRange {
  const transaction = source.reader.transaction(transactionId);
  if (!transaction)
    throw new ExportError(`${source.path} has no transaction ${transactionId}: check the id, or name its --recording`);
  const { firstTimestampNs } = transaction;
  const fromNs = firstTimestampNs > contextNs ? firstTimestampNs - contextNs : 0n;
  return { fromNs, toNs: wholeEndOf(transaction) + contextNs + 1n };
}

/** Losses of the time, with what is in progress, or was when an agent ended: it is missing from its start on. */
export function lossesIn({ reader }: Source, { filter, window: { fromNs, toNs } }: Selection): Loss[] {
  const losses = reader.losses(fromNs, toNs);
  const { inProgress, unfinished, unlisted } = reader.unended(filter);
  const untilNs = reader.recordedSpan()?.toNs ?? 0n;
  // Events that a transaction has are followed by what it is missing, however long it was quiet in between.
  const isKnown = (startNs: bigint) => (fromNs ?? 0n) <= startNs && (toNs === undefined || startNs < toNs);
  const reaching = (startNs: bigint, endNs: bigint): Pick<Loss, 'fromNs' | 'toNs'> => {
    const firstNs = toNs !== undefined && toNs < startNs ? toNs : startNs;
    return { fromNs: firstNs, toNs: endNs > startNs ? endNs : startNs };
  };
  const open = startsOf(inProgress).map(({ startNs, eventType }) => ({
    ...reaching(startNs, untilNs),
    ...{ cause: IN_PROGRESS, eventType, count: 1 },
  }));
  const ended = startsOf(unfinished)
    .filter(({ startNs }) => !isKnown(startNs))
    .map(({ startNs, eventType }) => ({
      ...reaching(startNs, startNs),
      ...{ cause: IN_PROGRESS, eventType, count: 1 },
    }));
  const { count, sinceNs } = unlisted;
  const others: Loss[] =
    count > 0 ? [{ ...reaching(sinceNs, untilNs), cause: IN_PROGRESS, eventType: null, count }] : [];
  return [...losses, ...ended, ...open, ...others];
}

const IN_PROGRESS: LossCause = 'in_progress';

function startsOf(block: NumberedBlock | undefined): { startNs: bigint; eventType: EventType | null }[] {
  if (!block) return [];
  const starts = block.columns.get('timestamp_ns') as BigUint64Array;
  const types = block.columns.get('event_type') as Uint8Array;
  return Array.from(types, (type, row) => ({ startNs: starts[row]!, eventType: eventById(type)?.name ?? null }));
}

/** Returns the steps that were in force at some time within the window. */
export function clockStepsIn({ reader }: Source, { fromNs = 0n, toNs }: TimeRange): ClockStep[] {
  return clockSpans(reader.clockSteps())
    .filter((span) => toNs === undefined || span.fromNs < toNs)
    .filter((span) => span.toNs === undefined || span.toNs > fromNs)
    .map(({ step }) => step);
}
