/**
 * Finds the transactions that meet a rule among the events that were recorded since the last look. An event's number
 * says exactly what was examined: numbers are never given twice.
 */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import { isOwnEvent } from '../store/blocks/own_events.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../store/blocks/scanned_block.ts';
import type { Recordings } from '../store/embedded/recordings.ts';
import type { TransactionSummary } from '../store/store.ts';
import { hasEventCondition, type Rule } from './rules.ts';
import type { FoundMatch } from './state.ts';

/** Rows that are read at once, between which other work may run. */
const ROWS_A_STEP = 4096;
/** Transactions that are read without a pause: each takes up to 130 us. */
const READ_A_STEP = 32;
/** Numbers that are examined before the position is kept. */
export const NUMBERS_A_CHUNK = 262_144;
/**
 * The most transactions whose start is remembered. Others are read from the recording, which takes forty times as long as
 * to list those that are new; a transaction that the writer has forgotten, too, counts from its next event on.
 */
const STARTS_MAX = 262_144;
/** Transactions that are listed at once, and for one block. */
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
   * Examines a range in steps; other work may run between them. Calls `onFound` for each transaction and rule, perhaps
   * again. Returns how many events of the range retention removed before they were examined.
   */
  examine(range: ExaminedRange, onFound: OnFound): Generator<void, number>;
  /** Returns the number of the first event that is stored at or after `from`; `end` if there is none. */
  findNext(range: ExaminedRange): number;
}

export interface ExaminerOptions {
  recordings: Recordings;
  rules: readonly Rule[];
  /** Whether this transaction is known to meet the rule: then nothing is read for it. */
  isKnown: (rule: Rule, recordingId: string, transactionId: string) => boolean;
}

export function createExaminer({ recordings, rules, isKnown }: ExaminerOptions): Examiner {
  const eventRules = rules.filter((rule) => rule.minDurationNs === undefined && hasEventCondition(rule));
  const ownRules = rules.filter((rule) => !eventRules.includes(rule));
  const leastNs = ownRules.reduce<bigint>((least, { minDurationNs: ns = 0n }) => (ns < least ? ns : least), 2n ** 63n);
  const starts = createStarts();

  /**
   * Calls `onBlock` with each block of a range, and yields what that yields. Returns how many events were removed before they were read: retention
   * goes on meanwhile, so each part of the range is counted when its block has been read.
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
      // Nothing in the recording can match: what could have matched may have been removed.
      const readEnd = arrived?.next ?? end;
      missed += recordings.countRemoved(recordingId, next, readEnd).count;
      if (arrived) yield* onBlock(arrived.scanned);
      yield;
      next = readEnd;
    }
    return missed;
  }

  /** Finds transactions with an event that meets the rule. */
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
        if (transactionId === null || isKnown(rule, recordingId, transactionId)) continue;
        const service = chooseService(rule, [dictionary.name(services[row]!)]);
        onFound(rule, {
          rule: rule.name,
          recordingId,
          transactionId,
          service,
          atNs: timestamps[row]! + durations[row]!,
        });
      }
      return [];
    });
  }

  /** Finds transactions that are as long as a rule asks for, perhaps with an event that it asks for. */
  function* examineTransactions(range: ExaminedRange, onFound: OnFound): Generator<void, number> {
    const { recordingId } = range;
    let unread = 0;
    const removed = yield* readArrivals(range, {}, function* (scanned) {
      yield* learnStarts(recordingId, scanned);
      let read = 0;
      for (const [transactionId, context] of selectLong(scanned)) {
        const isRead = yield* examineOne({ recordingId, transactionId, context }, onFound);
        if (!isRead) unread += countEvents(scanned, transactionId);
        if (++read % READ_A_STEP === 0) yield;
      }
    });
    return removed + unread;
  }

  /**
   * Notes the starts of transactions that appear in a block for the first time: their keys are those of their first
   * contexts, so they are neighbours in the list of transactions.
   */
  function* learnStarts(recordingId: string, { block, dictionary }: RecordingBlock): Generator<void, void> {
    const contexts = getColumn(block, 'context').subarray(0, block.rowCount);
    const unknown = [...new Set(contexts)].filter((context) => {
      const id = context === 0 ? null : dictionary.context(context).transactionId;
      return id !== null && !starts.has(id);
    });
    const leastKey = unknown.reduce((least, context) => Math.min(least, context), Number.MAX_SAFE_INTEGER);
    let beforeKey = unknown.reduce((most, context) => Math.max(most, context), 0) + 1;
    for (let left = LISTED_MAX; left > 0 && beforeKey > leastKey; left -= LISTED_AT_ONCE) {
      const newest = recordings.listNewest(recordingId, { limit: LISTED_AT_ONCE, beforeKey });
      for (const { transactionId, firstTimestampNs } of newest) starts.note(transactionId, firstTimestampNs, true);
      if (newest.length < LISTED_AT_ONCE) return;
      beforeKey = newest.at(-1)!.key;
      yield;
    }
  }

  /** Returns the transactions of a block that may have reached the least duration of all rules, each with a context. */
  function selectLong({ block, dictionary }: RecordingBlock): Map<string, number> {
    const contexts = getColumn(block, 'context');
    const [timestamps, durations] = [getBigColumn(block, 'timestamp_ns'), getBigColumn(block, 'duration_ns')];
    const sources = getColumn(block, 'context_source');
    const spans = new Map<number, { fromNs: bigint; toNs: bigint }>();
    for (let row = 0; row < block.rowCount; row++) {
      const context = contexts[row]!;
      // A request that writes data back later takes none of the transaction's time.
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
    const long = new Map<string, number>();
    for (const [context, span] of spans) {
      const { transactionId } = dictionary.context(context);
      if (transactionId === null) continue;
      const startNs = starts.note(transactionId, span.fromNs);
      if (startNs === undefined || span.toNs - startNs >= leastNs) long.set(transactionId, context);
    }
    return long;
  }

  /** Reads a transaction, soon if its context is its first one. */
  function readTransaction({ recordingId, transactionId, context }: SeenTransaction): KnownTransaction | undefined {
    const [first] = recordings.listNewest(recordingId, { limit: 1, beforeKey: context + 1 });
    return first?.transactionId === transactionId ? first : recordings.findTransaction(transactionId);
  }

  /** Returns false if retention has removed the transaction before it was known whether it meets a rule. */
  function* examineOne(seen: SeenTransaction, onFound: OnFound): Generator<void, boolean> {
    const { recordingId, transactionId } = seen;
    const asked = ownRules.filter((rule) => !isKnown(rule, recordingId, transactionId));
    if (asked.length === 0) return true;
    const transaction = readTransaction(seen);
    if (!transaction) return false;
    let isRead = true;
    const startNs = starts.note(transactionId, transaction.firstTimestampNs, true)!;
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
      // Events that are gone for one rule are gone for the rules after it as well.
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

interface SeenTransaction {
  recordingId: string;
  transactionId: string;
  /** Id of one of its contexts. */
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

/** The service that a cool-down is about: one that the rule names, if it took part. */
function chooseService({ services = [] }: Rule, tookPart: readonly string[]): string {
  return (
    services.find((service) => tookPart.includes(service)) ??
    tookPart.find((service) => service !== '') ??
    services[0] ??
    ''
  );
}

/** Remembers when transactions began, as long as their events keep coming. */
function createStarts() {
  const known = new Map<string, bigint>();
  return {
    has: (transactionId: string) => known.has(transactionId),
    /** Returns the start as far as it is known; `isWhole` says that the recording's own summary is noted. */
    note(transactionId: string, fromNs: bigint, isWhole = false): bigint | undefined {
      const before = known.get(transactionId);
      if (before === undefined && !isWhole) return undefined;
      const startNs = before === undefined || fromNs < before ? fromNs : before;
      known.delete(transactionId);
      known.set(transactionId, startNs);
      if (known.size > STARTS_MAX) known.delete(known.keys().next().value!);
      return startNs;
    },
  };
}
