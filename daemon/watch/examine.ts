/**
 * Finds transactions that match a rule among newly recorded events. Event numbers are never reused, so the number of
 * the last examined event is an exact position.
 */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import { max } from '../base/bigints.ts';
import { isOwnEvent } from '../store/blocks/own_events.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../store/blocks/scanned_block.ts';
import type { Recordings } from '../store/embedded/recordings.ts';
import type { TransactionSummary } from '../store/store.ts';
import { hasEventCondition, type Rule } from './rules.ts';
import type { FoundMatch } from './state.ts';

/** Number of rows read in one step; other work may run between two steps. */
const ROWS_A_STEP = 4096;
/** Number of transaction summaries read in one step. Reading one takes up to 130 us. */
const READ_A_STEP = 32;
/** Maximum length of a range of event numbers that is examined before the position is stored. */
export const NUMBERS_A_CHUNK = 262_144;
/**
 * Maximum number of transactions whose start is cached. For other transactions, the start is read from the recording,
 * which takes forty times as long as listing a new transaction. If the recording's writer has forgotten the transaction
 * too, the transaction counts from its next event on.
 */
const STARTS_MAX = 262_144;
/** Number of transactions listed in one step, and maximum number listed for one block. */
const LISTED_AT_ONCE = 1024;
const LISTED_MAX = 4 * ROWS_A_STEP;

export interface ExaminedRange {
  recordingId: string;
  /** Event numbers, [from, end). */
  from: number;
  end: number;
}

export type OnFound = (rule: Rule, found: FoundMatch) => void;

export interface Examiner {
  /**
   * Examines a range in steps, between which other work may run. Calls `onFound` for each transaction and rule that
   * match, possibly more than once. Returns how many events of the range retention removed before they were examined.
   */
  examine(range: ExaminedRange, onFound: OnFound): Generator<void, number>;
  /** Returns the number of the first event stored at or after `from`; `end` if no such event is stored. */
  findNext(range: ExaminedRange): number;
}

export interface ExaminerOptions {
  recordings: Recordings;
  rules: readonly Rule[];
  /** Whether a transaction is already known to match a rule, so that it need not be read again. */
  isKnown: (rule: Rule, seen: Seen) => boolean;
}

/** A transaction with an event at a time of the recording. */
export type Seen = Pick<FoundMatch, 'recordingId' | 'transactionId' | 'atNs'>;

export function createExaminer({ recordings, rules, isKnown }: ExaminerOptions): Examiner {
  const eventRules = rules.filter((rule) => rule.minDurationNs === undefined && hasEventCondition(rule));
  const ownRules = rules.filter((rule) => !eventRules.includes(rule));
  const leastNs = ownRules.reduce<bigint>((least, { minDurationNs: ns = 0n }) => (ns < least ? ns : least), 2n ** 63n);
  const starts = createStarts();

  /**
   * Calls `onBlock` with each block of a range, and yields between steps. Returns how many events retention removed
   * before they were read. They are counted after each block, because retention continues during the scan.
   */
  function* readArrivals(
    { recordingId, from, end }: ExaminedRange,
    filter: EventFilter,
    onBlock: (scanned: RecordingBlock) => Iterable<void>,
  ): Generator<void, number> {
    for (const _ of recordings.lookForFiles(filter)) yield;
    let missed = 0;
    for (let next = from; next < end; ) {
      const arrived = recordings.arrivals({ recordingId, filter, from: next, end, limit: ROWS_A_STEP });
      // If `arrived` is undefined, no stored event can match, but matching events may have been removed.
      const readEnd = arrived?.next ?? end;
      missed += recordings.countRemoved(recordingId, next, readEnd).count;
      if (arrived) yield* onBlock(arrived.scanned);
      yield;
      next = readEnd;
    }
    return missed;
  }

  /** Finds transactions with an event that meets all conditions of a rule. */
  function examineEvents(range: ExaminedRange, rule: Rule, onFound: OnFound): Generator<void, number> {
    const { recordingId } = range;
    return readArrivals(range, buildEventFilter(rule), ({ block, dictionary }) => {
      const contexts = getColumn(block, 'context');
      const services = getColumn(block, 'service');
      const [timestamps, durations] = [getBigColumn(block, 'timestamp_ns'), getBigColumn(block, 'duration_ns')];
      const told = new Set<number>();
      for (let row = 0; row < block.rowCount; row++) {
        const context = contexts[row]!;
        if (context === 0 || told.has(context)) continue;
        told.add(context);
        const { transactionId } = dictionary.context(context);
        const atNs = timestamps[row]! + durations[row]!;
        if (transactionId === null || isKnown(rule, { recordingId, transactionId, atNs })) continue;
        const service = chooseService(rule, [dictionary.name(services[row]!)]);
        onFound(rule, { rule: rule.name, recordingId, transactionId, service, atNs });
      }
      return [];
    });
  }

  /**
   * Finds transactions that are long enough for a rule. If the rule has event conditions, an event must meet them too.
   */
  function* examineTransactions(range: ExaminedRange, onFound: OnFound): Generator<void, number> {
    const { recordingId } = range;
    let unread = 0;
    const removed = yield* readArrivals(range, {}, function* (scanned) {
      yield* learnStarts(recordingId, scanned);
      let read = 0;
      for (const seen of selectLong(recordingId, scanned)) {
        const isRead = yield* examineOne(seen, onFound);
        if (!isRead) unread += countEvents(scanned, seen.transactionId);
        if (++read % READ_A_STEP === 0) yield;
      }
    });
    return removed + unread;
  }

  /**
   * Caches the starts of transactions that are new in a block. The list of transactions is sorted by the id of each
   * transaction's first context, so new transactions are neighbours in the list.
   */
  function* learnStarts(recordingId: string, { block, dictionary }: RecordingBlock): Generator<void, void> {
    const contexts = getColumn(block, 'context').subarray(0, block.rowCount);
    const unknown = [...new Set(contexts)].filter((context) => {
      const id = context === 0 ? null : dictionary.context(context).transactionId;
      return id !== null && !starts.has(recordingId, id);
    });
    const leastKey = unknown.reduce((least, context) => Math.min(least, context), Number.MAX_SAFE_INTEGER);
    let beforeKey = unknown.reduce((most, context) => Math.max(most, context), 0) + 1;
    for (let left = LISTED_MAX; left > 0 && beforeKey > leastKey; left -= LISTED_AT_ONCE) {
      const newest = recordings.listNewest(recordingId, { limit: LISTED_AT_ONCE, beforeKey });
      for (const { transactionId, firstTimestampNs } of newest)
        starts.note(recordingId, transactionId, firstTimestampNs, true);
      if (newest.length < LISTED_AT_ONCE) return;
      beforeKey = newest.at(-1)!.key;
      yield;
    }
  }

  /** Selects the transactions of a block that may be long enough for a rule. */
  function selectLong(recordingId: string, { block, dictionary }: RecordingBlock): Iterable<SeenTransaction> {
    const contexts = getColumn(block, 'context');
    const [timestamps, durations] = [getBigColumn(block, 'timestamp_ns'), getBigColumn(block, 'duration_ns')];
    const sources = getColumn(block, 'context_source');
    const spans = new Map<number, { fromNs: bigint; toNs: bigint }>();
    for (let row = 0; row < block.rowCount; row++) {
      const context = contexts[row]!;
      // Write-back requests add nothing to a transaction's duration, because its caller does not wait for them.
      if (context === 0 || !isOwnEvent(true, sources[row]!)) continue;
      const fromNs = timestamps[row]!;
      const toNs = fromNs + durations[row]!;
      const span = spans.get(context);
      if (!span) spans.set(context, { fromNs, toNs });
      else {
        if (fromNs < span.fromNs) span.fromNs = fromNs;
        if (toNs > span.toNs) span.toNs = toNs;
      }
    }
    const long = new Map<string, SeenTransaction>();
    for (const [context, { fromNs, toNs }] of spans) {
      const { transactionId } = dictionary.context(context);
      if (transactionId === null) continue;
      const startNs = starts.note(recordingId, transactionId, fromNs);
      if (startNs !== undefined && toNs - startNs < leastNs) continue;
      const { atNs = toNs } = long.get(transactionId) ?? {};
      long.set(transactionId, { recordingId, transactionId, context, atNs: max(atNs, toNs) });
    }
    return long.values();
  }

  /** Reads a transaction's summary. The lookup is fast if `context` is the transaction's first context. */
  function readTransaction({ recordingId, transactionId, context }: SeenTransaction): KnownTransaction | undefined {
    const [first] = recordings.listNewest(recordingId, { limit: 1, beforeKey: context + 1 });
    return first?.transactionId === transactionId ? first : recordings.findTransaction(transactionId, recordingId);
  }

  /**
   * Calls `onFound` for each rule that a transaction matches. Returns false if retention removed the transaction before
   * all rules were checked.
   */
  function* examineOne(seen: SeenTransaction, onFound: OnFound): Generator<void, boolean> {
    const { recordingId, transactionId } = seen;
    const asked = ownRules.filter((rule) => !isKnown(rule, seen));
    if (asked.length === 0) return true;
    const transaction = readTransaction(seen);
    if (!transaction) return false;
    let isRead = true;
    const startNs = starts.note(recordingId, transactionId, transaction.firstTimestampNs, true)!;
    for (const rule of asked) {
      if (!isLongEnough(rule, { ...transaction, firstTimestampNs: startNs })) continue;
      if (hasEventCondition(rule) && !(yield* hasEvent(rule, transactionId))) {
        isRead &&= readTransaction(seen) !== undefined;
        continue;
      }
      const service = chooseService(rule, transaction.services);
      onFound(rule, { rule: rule.name, recordingId, transactionId, service, atNs: transaction.lastEndNs });
    }
    return isRead;
  }

  function* hasEvent(rule: Rule, transactionId: string): Generator<void, boolean> {
    const filter = { ...buildEventFilter(rule), transactionId };
    for (const { block } of recordings.scan({ filter, order: 'asc', limit: 1 })) {
      if (block.rowCount > 0) return true;
      yield;
    }
    return false;
  }

  return {
    *examine(range, onFound) {
      // Retention removes the same events for every rule, so the counts are not added up.
      let missed = 0;
      for (const rule of eventRules) missed = Math.max(missed, yield* examineEvents(range, rule, onFound));
      if (ownRules.length > 0) missed = Math.max(missed, yield* examineTransactions(range, onFound));
      return missed;
    },
    findNext({ recordingId, from, end }) {
      for (let next = from; next < end; ) {
        const arrived = recordings.arrivals({ recordingId, filter: {}, from: next, end, limit: 1 });
        if (!arrived) return end;
        if (arrived.scanned.block.rowCount > 0) return Number(arrived.scanned.block.numbers[0]);
        next = arrived.next;
      }
      return end;
    },
  };
}

function countEvents({ block, dictionary }: RecordingBlock, transactionId: string): number {
  const contexts = [...getColumn(block, 'context').subarray(0, block.rowCount)];
  return contexts.filter((context) => context !== 0 && dictionary.context(context).transactionId === transactionId)
    .length;
}

type KnownTransaction = Pick<TransactionSummary, 'firstTimestampNs' | 'lastEndNs' | 'services'>;

interface SeenTransaction extends Seen {
  /** Id of one of the transaction's contexts. */
  context: number;
}

function isLongEnough({ minDurationNs = 0n, services }: Rule, transaction: KnownTransaction): boolean {
  const isOfService = !services || services.some((service) => transaction.services.includes(service));
  return isOfService && transaction.lastEndNs - transaction.firstTimestampNs >= minDurationNs;
}

function buildEventFilter({ services, minEventNs, failed, results }: Rule): EventFilter {
  return {
    ...(services && { services }),
    ...(minEventNs !== undefined && { minDurationNs: minEventNs }),
    ...(failed && { failed }),
    ...(results && { results }),
  };
}

/** Chooses the service for the cool-down: preferably a service that the rule names and that took part. */
function chooseService({ services = [] }: Rule, tookPart: readonly string[]): string {
  return (
    services.find((service) => tookPart.includes(service)) ??
    tookPart.find((service) => service !== '') ??
    services[0] ??
    ''
  );
}

/**
 * Caches the starts of the transactions whose events came most recently. A later recording may use an id again for
 * another transaction.
 */
function createStarts() {
  const known = new Map<string, bigint>();
  const buildKey = (recordingId: string, transactionId: string) => `${recordingId} ${transactionId}`;
  return {
    has: (recordingId: string, transactionId: string) => known.has(buildKey(recordingId, transactionId)),
    /**
     * Notes an event time and returns the transaction's start; undefined if the start is not known yet. `isWhole` means
     * that `fromNs` is the start in the recording's own summary.
     */
    note(recordingId: string, transactionId: string, fromNs: bigint, isWhole = false): bigint | undefined {
      const key = buildKey(recordingId, transactionId);
      const before = known.get(key);
      if (before === undefined && !isWhole) return undefined;
      const startNs = before === undefined || fromNs < before ? fromNs : before;
      known.delete(key);
      known.set(key, startNs);
      if (known.size > STARTS_MAX) known.delete(known.keys().next().value!);
      return startNs;
    },
  };
}
