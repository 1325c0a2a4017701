/**
 * Finds out of which transactions the own events lie further apart than they take together, as when an id is used again.
 * The summary of nearly every transaction shows that it has one burst; the events of the others are read, up to a limit.
 */
import { max } from '../base/bigints.ts';
import { hasErrorCode } from '../base/problem.ts';
import { type Burst, divideIntoBursts, mayHaveBursts } from '../model/explanation/bursts.ts';
import { createOwnEventTest, OWN_EVENT_COLUMNS } from './blocks/own_events.ts';
import { getBigColumn } from './blocks/scanned_block.ts';
import type { Store, TransactionSummary } from './store.ts';

export interface BurstSums {
  count: number;
  /** Longest pause between two bursts; 0 for a single burst. */
  apartNs: bigint;
}

export interface BurstLimits {
  /** Maximum number of transactions whose events are read. */
  transactionsMax: number;
  /** Maximum number of events of these transactions. */
  eventsMax: number;
}

/** Bursts that were counted before, because lists of the same transactions are asked for again and again. */
export interface KnownBursts {
  find(transaction: TransactionSummary): BurstSums | undefined;
  add(transaction: TransactionSummary, bursts: BurstSums): void;
}

/** Maximum number of transactions that are remembered: an id has up to 1 KiB. */
const KNOWN_MAX = 1000;

export function createKnownBursts(): KnownBursts {
  const known = new Map<string, { of: string; bursts: BurstSums }>();
  /** Changes when another event of the transaction is recorded. */
  const describe = ({ firstTimestampNs, lastEndNs, eventCount }: TransactionSummary) =>
    `${firstTimestampNs} ${lastEndNs} ${eventCount}`;
  return {
    find(transaction) {
      const found = known.get(transaction.transactionId);
      return found?.of === describe(transaction) ? found.bursts : undefined;
    },
    add(transaction, bursts) {
      const { transactionId } = transaction;
      known.delete(transactionId);
      known.set(transactionId, { of: describe(transaction), bursts });
      if (known.size > KNOWN_MAX) known.delete(known.keys().next().value!);
    },
  };
}

/** Limits of a list: looking up the events of a transaction takes as long as reading hundreds of events. */
export const LISTED_BURSTS: BurstLimits = { transactionsMax: 10, eventsMax: 10_000 };
/** Limits of an answer about a single transaction. */
export const OWN_BURSTS: BurstLimits = { transactionsMax: 1, eventsMax: 50_000 };

const COLUMNS = ['timestamp_ns', 'duration_ns', ...OWN_EVENT_COLUMNS];

/**
 * Counts the bursts of each transaction; null for a transaction whose events would exceed the limits, are not all there, or
 * cannot be read. The limits apply in the order of the transactions, to those in `known` too, so that earlier answers do not decide
 * which transactions are within the limits. A count in `known` stays right when events of the transaction are removed.
 */
export async function* countBursts(
  store: Pick<Store, 'scan'>,
  transactions: readonly TransactionSummary[],
  { transactionsMax, eventsMax }: BurstLimits,
  known: KnownBursts = createKnownBursts(),
): AsyncGenerator<void, (BurstSums | null)[]> {
  const found: (BurstSums | null)[] = [];
  let [transactionsLeft, eventsLeft] = [transactionsMax, eventsMax];
  for (const transaction of transactions) {
    const { eventCount } = transaction;
    const derived = deriveBursts(transaction);
    if (derived) {
      found.push(derived);
    } else if (transactionsLeft === 0 || eventCount > eventsLeft) {
      found.push(null);
    } else {
      transactionsLeft--;
      eventsLeft -= eventCount;
      const bursts = known.find(transaction) ?? (yield* tryToReadBursts(store, transaction));
      if (bursts) known.add(transaction, bursts);
      found.push(bursts);
    }
  }
  return found;
}

/** Returns null if the events cannot be read now: an answer that has the count among other things does not fail then. */
async function* tryToReadBursts(
  store: Pick<Store, 'scan'>,
  transaction: TransactionSummary,
): AsyncGenerator<void, BurstSums | null> {
  try {
    return yield* readBursts(store, transaction);
  } catch (error) {
    if (hasErrorCode(error)) return null;
    throw error;
  }
}

/** Counts the bursts by the summary alone; undefined if only the events tell how many there are. */
export function deriveBursts(summary: TransactionSummary): BurstSums | undefined {
  const { firstTimestampNs, lastEndNs, slowestNs, eventCount, writtenBack } = summary;
  if (mayHaveBursts({ durationNs: lastEndNs - firstTimestampNs, slowestNs })) return undefined;
  return { count: eventCount > writtenBack.count ? 1 : 0, apartNs: 0n };
}

/**
 * Reads the events, own and written back, because the summary counts both. Returns null if there are fewer than the summary
 * counts: retention has removed the others, or they are damaged, and nobody knows what was in the pauses, or before them.
 */
async function* readBursts(
  store: Pick<Store, 'scan'>,
  { transactionId, eventCount }: TransactionSummary,
): AsyncGenerator<void, BurstSums | null> {
  let readCount = 0;
  const intervals: number[] = [];
  const starts: bigint[] = [];
  const ends: bigint[] = [];
  for await (const scanned of store.scan({ filter: { transactionId }, order: 'asc', columns: COLUMNS })) {
    const { block } = scanned;
    const timestamps = getBigColumn(block, 'timestamp_ns');
    const durations = getBigColumn(block, 'duration_ns');
    const isOwn = createOwnEventTest(scanned, transactionId);
    readCount += block.rowCount;
    for (let row = 0; row < block.rowCount; row++) {
      if (!isOwn(row)) continue;
      starts.push(timestamps[row]!);
      ends.push(timestamps[row]! + durations[row]!);
      intervals.push(Number(starts.at(-1)! - starts[0]!), Number(ends.at(-1)! - starts[0]!));
    }
    yield;
  }
  if (readCount < eventCount) return null;
  const bursts = divideIntoBursts(intervals);
  return { count: bursts.length, apartNs: findLongestPauseNs(bursts, starts, ends) };
}

/** Finds the longest pause exactly: a double does not hold each nanosecond of a transaction of 104 days. */
function findLongestPauseNs(bursts: readonly Burst[], starts: readonly bigint[], ends: readonly bigint[]): bigint {
  let longestNs = 0n;
  let first = 0;
  for (const { count } of bursts.slice(0, -1)) {
    const next = first + count;
    const endNs = ends.slice(first, next).reduce(max);
    longestNs = max(longestNs, starts[next]! - endNs);
    first = next;
  }
  return longestNs;
}
