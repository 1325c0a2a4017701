/**
 * Computes which calls and requests an answer lacks because they began in the window and have not ended. This includes
 * calls and requests that were in progress when an agent ended, because the recording lists them with their owners:
 *
 *   window    from ............ to
 *   calls       [== in progress ======= ...     a gap from its start, and described
 *          [=== in progress =========== ...     an event of an earlier window
 *                 [= lost                       a loss at its start
 */
import { createUnendedTest } from '../../agent/recording/read/unended.ts';
import type { LossCause } from '../../bpf/schema/losses.ts';
import { type Coverage, IN_PROGRESS_MAX } from '../contract/coverage_schema.ts';
import type { EventFilter, NodeLoss, NodeSpan, Store, UnendedEvent, UnendedEvents } from '../store/store.ts';
import type { CoverageQuery } from './unrecorded.ts';

export const IN_PROGRESS: LossCause = 'in_progress';

/** Calls and requests in progress in a store, regardless of when they began. */
export interface FoundUnended {
  /** The calls and requests that belong to the answer. */
  own: UnendedEvents;
  /** Calls and requests that were in progress when agents ended, whether they belong to the answer or not. */
  lost: readonly UnendedEvent[];
  /** Whether all calls and requests in `own` belong to the answer, even if they began outside of the window. */
  isSelected: boolean;
}

/** Calls and requests in progress; `events` describes at most IN_PROGRESS_MAX of them. */
export interface FoundInProgress {
  count: number;
  oldest: bigint;
  events: Omit<NonNullable<Coverage['in_progress']>['events'][number], 'timestamp'>[];
}

/** The losses of an answer, together with its calls and requests in progress. */
interface InProgressAnswer {
  /** The losses of the window, except calls and requests in progress that the filter does not select. */
  losses: NodeLoss[];
  inProgress: FoundInProgress | undefined;
}

/** Finds the calls and requests in progress that a filter selects, regardless of when they began. */
export async function findUnended(
  store: Store,
  nodes: readonly string[] | undefined,
  filter: EventFilter,
): Promise<FoundUnended> {
  const { events, lost, unlisted } = await store.readUnended(nodes);
  const isWanted = createUnendedTest(filter);
  const isLabelled = filter.transactionId !== undefined || filter.traceId !== undefined;
  const others = isLabelled ? selectLabelled(unlisted) : unlisted;
  const own = { events: events.filter(isWanted), lost: lost.filter(isWanted), unlisted: others };
  return { own, lost, isSelected: false };
}

function selectLabelled(unlisted: UnendedEvents['unlisted']): UnendedEvents['unlisted'] {
  return unlisted.flatMap((one) => (one.labelled > 0 ? [{ ...one, count: one.labelled }] : []));
}

/**
 * Maximum number of transactions whose start is looked up. A call of any further transaction is selected if that
 * transaction may have begun in the window.
 */
const LOOKED_UP_MAX = 512;

/**
 * Selects calls and requests that belong, or may belong, to transactions that began in the window. The calls and
 * requests themselves may have begun at any time.
 */
export async function selectOfTransactions(
  store: Store,
  { own: { events, lost: ownLost, unlisted }, lost }: FoundUnended,
  { fromNs, toNs }: Pick<CoverageQuery, 'fromNs' | 'toNs'>,
): Promise<FoundUnended> {
  const isInWindow = (ns: bigint) => (fromNs === undefined || ns >= fromNs) && (toNs === undefined || ns < toNs);
  // A transaction begins no later than its first call.
  const mayBeginInWindow = ({ timestamp_ns }: UnendedEvent) => fromNs === undefined || timestamp_ns >= fromNs;
  const listTransactionIds = ({ transaction_id, origins }: UnendedEvent) =>
    [transaction_id, ...origins.map((origin) => origin.transaction_id)].filter((id) => id !== null);
  const ids = [...new Set([...events, ...ownLost].filter(mayBeginInWindow).flatMap(listTransactionIds))];
  const lookedUp = new Set(ids.slice(0, LOOKED_UP_MAX));
  const known = await store.findTransactionsById([...lookedUp]);
  const select = (all: readonly UnendedEvent[]) =>
    all.filter((event) =>
      listTransactionIds(event).some((id) => {
        const startNs = known.get(id)?.firstTimestampNs;
        if (startNs !== undefined && startNs < event.timestamp_ns) return isInWindow(startNs);
        return mayBeginInWindow(event) && (!lookedUp.has(id) || isInWindow(event.timestamp_ns));
      }),
    );
  const own = { events: select(events), lost: select(ownLost), unlisted: selectLabelled(unlisted) };
  return { own, lost, isSelected: true };
}

/** Adds the calls and requests in progress to `losses`, the losses of the window on all nodes of the query. */
export function addInProgress(
  losses: readonly NodeLoss[],
  { own, lost, isSelected }: FoundUnended,
  { spans, window: { fromNs = 0n, toNs } }: { spans: readonly NodeSpan[]; window: CoverageQuery },
): InProgressAnswer {
  const untils = new Map<string, bigint>();
  for (const { node, toNs: untilNs } of spans) if (untilNs > (untils.get(node) ?? -1n)) untils.set(node, untilNs);
  const getUntil = (node: string) => untils.get(node) ?? 0n;
  // If the query has no `to`, the window ends where the recording ends.
  const isBefore = (ns: bigint, node: string) => (toNs === undefined ? ns <= getUntil(node) : ns < toNs);
  const isServed = (node: string) => untils.has(node);
  const isInAnswer = ({ timestamp_ns, node }: UnendedEvent) =>
    isServed(node) && (isSelected || (timestamp_ns >= fromNs && isBefore(timestamp_ns, node)));
  const events = own.events.filter(isInAnswer);
  // Unlisted calls have no known owner, and each call may have begun at any time from `sinceNs` to `untilNs`.
  const unlisted = own.unlisted.filter(
    ({ node, sinceNs, untilNs }) =>
      isServed(node) && (isSelected || (isBefore(sinceNs, node) && (untilNs >= fromNs || sinceNs >= fromNs))),
  );
  const open = [
    ...events.map(({ node, timestamp_ns, untilNs }) => ({ node, count: 1, sinceNs: timestamp_ns, untilNs })),
    ...unlisted.filter(({ isLost }) => !isLost),
  ];
  return {
    losses: [
      ...leaveOutKnown(losses, lost),
      ...own.lost.filter(isInAnswer).map(({ node, timestamp_ns }) => toLoss(node, 1, timestamp_ns, timestamp_ns)),
      ...unlisted.flatMap(({ node, count, sinceNs, untilNs, isLost }) =>
        isLost ? [toLoss(node, count, sinceNs, untilNs)] : [],
      ),
      ...open.map(({ node, count, sinceNs, untilNs }) => toLoss(node, count, sinceNs, untilNs)),
    ],
    inProgress: summarizeOpen(events, open),
  };
}

/** Returns whether a loss stands for a single call or request that was in progress when an agent ended. */
function isSingleLoss({ cause, fromNs, toNs, lost }: NodeLoss): boolean {
  return cause === IN_PROGRESS && fromNs === toNs && lost === 1;
}

/** Removes each loss that represents one of the known calls or requests. */
function leaveOutKnown(losses: readonly NodeLoss[], known: readonly UnendedEvent[]): NodeLoss[] {
  const left = Map.groupBy(known, ({ node, timestamp_ns }) => `${timestamp_ns} ${node}`);
  return losses.filter((loss) => !(isSingleLoss(loss) && left.get(`${loss.fromNs} ${loss.node}`)?.pop()));
}

function toLoss(node: string, lost: number, fromNs: bigint, untilNs: bigint): NodeLoss {
  return { node, lost, fromNs, toNs: untilNs > fromNs ? untilNs : fromNs, cause: IN_PROGRESS };
}

function summarizeOpen(
  events: readonly UnendedEvent[],
  open: readonly { count: number; sinceNs: bigint }[],
): FoundInProgress | undefined {
  if (open.length === 0) return undefined;
  const byStart = events.toSorted((a, b) => (a.timestamp_ns < b.timestamp_ns ? -1 : 1));
  return {
    count: open.reduce((sum, { count }) => sum + count, 0),
    oldest: open.reduce((least, { sinceNs }) => (sinceNs < least ? sinceNs : least), open[0]!.sinceNs),
    events: byStart.slice(0, IN_PROGRESS_MAX).map(({ origins: _, untilNs: _1, ...event }) => event),
  };
}
