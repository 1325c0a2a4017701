/**
 * Counts the bursts of transactions. A transaction has several bursts if a pause between its own events is longer than
 * a second and than all own events together, for example because the same id was used again later. For nearly every
 * transaction, the summary shows that there is one burst. For the other transactions, events are read, up to a limit.
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

/** The bursts that were counted for earlier answers, because clients often request the same transactions again. */
export interface KnownBursts {
  find(transaction: TransactionSummary): BurstSums | undefined;
  add(transaction: TransactionSummary, bursts: BurstSums): void;
}

/** Maximum number of remembered transactions. The number is limited because an id takes up to 1 KiB. */
const KNOWN_MAX = 1000;

export function createKnownBursts(): KnownBursts {
  const known = new Map<string, { of: string; bursts: BurstSums }>();
  /** Returns a text that changes when another event of the transaction is recorded. */
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

/**
 * Limits of a list of transactions. Few transactions are looked up, because a look-up takes as long as reading hundreds
 * of events.
 */
export const LISTED_BURSTS: BurstLimits = { transactionsMax: 10, eventsMax: 10_000 };
/** Limits of an answer about a single transaction. */
export const OWN_BURSTS: BurstLimits = { transactionsMax: 1, eventsMax: 50_000 };

const COLUMNS = ['timestamp_ns', 'duration_ns', ...OWN_EVENT_COLUMNS];

/**
 * Counts the bursts of each transaction. The count is null if the transaction's events exceed the limits, are
 * incomplete or cannot be read. The limits apply in the order of the transactions. Transactions in `known` also count
 * towards the limits, so that earlier answers do not decide which transactions are within the limits. A count in
 * `known` stays right when events of the transaction are removed.
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

/** Returns null if the events cannot be read, because a missing count must not make the whole answer fail. */
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

/** Derives the bursts from the summary alone; undefined if this needs the events. */
export function deriveBursts(summary: TransactionSummary): BurstSums | undefined {
  const { firstTimestampNs, lastEndNs, slowestNs, eventCount, writtenBack } = summary;
  if (mayHaveBursts({ durationNs: lastEndNs - firstTimestampNs, slowestNs })) return undefined;
  return { count: eventCount > writtenBack.count ? 1 : 0, apartNs: 0n };
}

/**
 * Counts the bursts from the transaction's own events. Also reads its written-back events, because the summary counts
 * both. Returns null if there are fewer events than the summary counts, because the missing events (removed by
 * retention or damaged) may have been in a pause.
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

/** Finds the longest pause. It uses bigints, because a double cannot represent every nanosecond beyond 104 days. */
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
