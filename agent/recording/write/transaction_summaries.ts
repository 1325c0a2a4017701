/** Updates the summary of each transaction with the events of a flush. */
import type Database from 'better-sqlite3';
import type { Block } from '../../../bpf/schema/block.ts';
import type { Column } from '../../../bpf/schema/columns.ts';
import type { BlockRange } from '../codec/encode_segment.ts';
import { isWrittenBack, ORIGINS, OWN } from '../format/owner_columns.ts';
import { packIds, toStored, unpackIds } from '../format/schema.ts';
import { RecentMap } from '../recent_map.ts';
import { toWords, wordsToBigint } from '../words64.ts';
import type { StoredDictionaries } from './stored_dictionaries.ts';

/**
 * SQL conditions: whether the new and the stored summary have own events. An own event takes precedence over
 * write-back, whatever their times.
 */
const [NEW_HAS_OWN, OLD_HAS_OWN] = ['excluded', 'transaction_summary'].map(
  (row) => `(${row}.event_count > ${row}.written_back_count)`,
);
const FIRST = `iif(
    ${NEW_HAS_OWN} = ${OLD_HAS_OWN}, min(first_timestamp_ns, excluded.first_timestamp_ns),
    iif(${NEW_HAS_OWN}, excluded.first_timestamp_ns, first_timestamp_ns)
  )`;
const IS_NEW_SLOWER = `(${NEW_HAS_OWN}, excluded.slowest_duration_ns) > (${OLD_HAS_OWN}, transaction_summary.slowest_duration_ns)`;

const ADD_SUMMARY = `
INSERT INTO transaction_summary (
  transaction_key, first_timestamp_ns, last_end_ns, event_count, error_count, slowest_duration_ns, slowest_number,
  last_number, transaction_id, trace_id, services, written_back_count, written_back_bytes, written_back_end_ns
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (transaction_key) DO UPDATE SET
  first_timestamp_ns = ${FIRST},
  last_end_ns = max(last_end_ns, excluded.last_end_ns),
  event_count = event_count + excluded.event_count,
  error_count = error_count + excluded.error_count,
  slowest_number = iif(${IS_NEW_SLOWER}, excluded.slowest_number, slowest_number),
  slowest_duration_ns = iif(${IS_NEW_SLOWER}, excluded.slowest_duration_ns, slowest_duration_ns),
  last_number = max(last_number, excluded.last_number),
  services = excluded.services,
  written_back_count = written_back_count + excluded.written_back_count,
  written_back_bytes = written_back_bytes + excluded.written_back_bytes,
  written_back_end_ns = max(written_back_end_ns, excluded.written_back_end_ns)`;

/** Number of transactions whose services are cached. A transaction with new events was usually written recently. */
const WRITTEN_MAX = 4096;

/** Number of cached lists with a single service; most transactions have only one. */
const SINGLE_MAX = 1024;

const NO_SERVICES = Buffer.alloc(0);

const SERVICES = 'SELECT services FROM transaction_summary WHERE transaction_key = ?';

const LAST_KEY = 'SELECT coalesce(max(transaction_key), 0) FROM transaction_summary';

/**
 * Returns a function that writes the summaries of a range's events. The function must run inside the flush's
 * transaction.
 */
export function createSummaryWriter(
  database: Database.Database,
  findTransaction: StoredDictionaries['findTransaction'],
): (block: Block, range: BlockRange, getEventNumber: (row: number) => number) => void {
  const addSummary = database.prepare(ADD_SUMMARY);
  const lastStoredKey = database.prepare<[], number>(LAST_KEY).pluck();
  const storedServices = database.prepare<[number], Buffer>(SERVICES).pluck();
  /** Stored service lists of the most recently written transactions. */
  const written = new RecentMap<number, Buffer>(WRITTEN_MAX);
  const single = new RecentMap<number, Buffer>(SINGLE_MAX);
  /** The largest transaction key with a row. Keys ascend, so transactions with larger keys have no row yet. */
  let lastKey = lastStoredKey.get()!;

  function readStoredServices(transactionKey: number): Buffer {
    if (transactionKey > lastKey) return NO_SERVICES;
    return written.get(transactionKey) ?? storedServices.get(transactionKey) ?? NO_SERVICES;
  }

  function packServices(services: readonly number[]): Buffer {
    const [only] = services;
    if (services.length !== 1) return packIds(Uint32Array.from(services));
    const known = single.get(only!);
    if (known) return known;
    const bytes = packIds(Uint32Array.of(only!));
    single.set(only!, bytes);
    return bytes;
  }

  function mergeServices(transactionKey: number, found: readonly number[]): Buffer {
    let all = readStoredServices(transactionKey);
    lastKey = Math.max(lastKey, transactionKey);
    if (all.length === 0) all = packServices(found);
    else {
      const ids = [...unpackIds(all)];
      const added = found.filter((id) => !ids.includes(id));
      if (added.length > 0) all = packServices([...ids, ...added]);
    }
    written.set(transactionKey, all);
    return all;
  }

  return (block, range, getEventNumber) => {
    const timestamp = block.columns.get('timestamp_ns')! as BigUint64Array;
    const duration = block.columns.get('duration_ns')! as BigUint64Array;
    for (const [transactionKey, summary] of summarize(block, range, findTransaction)) {
      addSummary.run(
        transactionKey,
        toStored(timestamp[summary.firstRow]!),
        toStored(wordsToBigint(summary.ownEnd.low, summary.ownEnd.high)),
        summary.eventCount,
        summary.errorCount,
        toStored(duration[summary.slowestRow]!),
        getEventNumber(summary.slowestRow),
        getEventNumber(summary.lastRow),
        summary.transaction.transactionId,
        summary.transaction.traceId,
        mergeServices(transactionKey, summary.services),
        summary.writtenBackCount,
        summary.writtenBackBytes,
        toStored(wordsToBigint(summary.writtenBackEnd.low, summary.writtenBackEnd.high)),
      );
    }
  };
}

/*
 * Summarizes the events of each transaction in some rows. An event counts for every transaction that owns a part of
 * it. An event that only writes back a transaction's data does not extend the transaction's time.
 */

interface Keyed {
  transactionKey: number;
}

/** The latest end of some events, as two 32-bit words. */
interface End {
  low: number;
  high: number;
}

/** The summary of one transaction. `Transaction` is the caller's type; equal keys mean the same transaction. */
interface Summary<Transaction extends Keyed> {
  transaction: Transaction;
  eventCount: number;
  errorCount: number;
  /**
   * Rows of the earliest and the slowest event. Own events are considered first, write-back events only if there are no
   * own events.
   */
  firstRow: number;
  slowestRow: number;
  ownEnd: End;
  writtenBackCount: number;
  writtenBackBytes: number;
  writtenBackEnd: End;
  lastRow: number;
  /** Whether `lastRow` is write-back; if so, its bytes are counted. */
  isLastWrittenBack: boolean;
  lastService: number;
  services: number[];
}

/** The columns that a pass over the rows reads, and the pass's results so far. */
interface SummaryPass<Transaction extends Keyed> {
  timestamp: Uint32Array;
  duration: Uint32Array;
  result: Uint32Array;
  summaries: Map<number, Summary<Transaction>>;
  findTransaction: TransactionOf<Transaction>;
  onRow: OnRow<Transaction> | undefined;
  /** Cache for `findTransaction`, whose own map is far larger; null means no transaction. */
  byContext: Map<number, Summary<Transaction> | null>;
  /** Adjacent rows mostly have the same owner, so the last owner is cached. */
  lastContext: number;
  lastSummary: Summary<Transaction> | null;
}

/** Returns the transaction of a context; undefined if it has none. */
type TransactionOf<Transaction extends Keyed> = (context: number) => Transaction | undefined;
type OnRow<Transaction extends Keyed> = (summary: Summary<Transaction>, row: number) => void;

/**
 * Returns the summaries by key. Calls `onRow` once for each row and each transaction that owns a part of the row's
 * event.
 */
function summarize<Transaction extends Keyed>(
  block: Block,
  range: BlockRange,
  findTransaction: TransactionOf<Transaction>,
  onRow?: OnRow<Transaction>,
): Map<number, Summary<Transaction>> {
  const getIds = ({ name }: Column) => block.columns.get(name)! as Uint32Array;
  const getWords = (name: string) => toWords(block.columns.get(name)! as BigUint64Array);
  const pass: SummaryPass<Transaction> = {
    timestamp: getWords('timestamp_ns'),
    duration: getWords('duration_ns'),
    result: getWords('result'),
    summaries: new Map(),
    findTransaction,
    onRow,
    byContext: new Map(),
    lastContext: 0,
    lastSummary: null,
  };
  const eventType = block.columns.get('event_type')! as Uint8Array;
  const sources = block.columns.get('context_source')! as Uint8Array;
  const ownContext = getIds(OWN.context);
  const ownService = getIds(OWN.service);
  const originsByType = Array.from(block.typeCounts, (_, type) =>
    ORIGINS.filter((origin) => origin.eventType === type).map(({ context, service, bytes }) => ({
      contexts: getIds(context),
      services: getIds(service),
      bytes: getWords(bytes.name),
    })),
  );
  const place = range.typeFrom.slice();
  for (let row = range.from; row < range.to; row++) {
    const type = eventType[row]!;
    const at = place[type]!++;
    addOwner(pass, row, ownContext[row]!, ownService[row]!, isWrittenBack(sources[row]!));
    const origins = originsByType[type]!;
    for (let slot = 0; slot < origins.length; slot++) {
      const { contexts, services, bytes } = origins[slot]!;
      if (contexts[at] !== 0) addOwner(pass, row, contexts[at]!, services[at]!, true, bytes[2 * at]!);
    }
  }
  return pass.summaries;
}

/** Adds a row to the summary of its owner's transaction. `bytes`: amount of the owner's data that a request carries. */
function addOwner<Transaction extends Keyed>(
  pass: SummaryPass<Transaction>,
  row: number,
  context: number,
  service: number,
  isBack: boolean,
  bytes = 0,
): void {
  if (context === 0) return;
  if (context !== pass.lastContext) {
    const known = pass.byContext.get(context);
    pass.lastSummary = known === undefined ? addContext(pass, row, context) : known;
    pass.lastContext = context;
  }
  const summary = pass.lastSummary;
  if (summary === null) return;
  if (service !== 0 && service !== summary.lastService) {
    if (!summary.services.includes(service)) summary.services.push(service);
    summary.lastService = service;
  }
  // A transaction that owns several parts of a request counts one event.
  if (summary.lastRow !== row) {
    addRow(pass, summary, row, isBack);
    pass.onRow?.(summary, row);
  }
  if (summary.isLastWrittenBack) summary.writtenBackBytes += bytes;
}

function addContext<Transaction extends Keyed>(
  pass: SummaryPass<Transaction>,
  row: number,
  context: number,
): Summary<Transaction> | null {
  const transaction = pass.findTransaction(context);
  const known = transaction ? pass.summaries.get(transaction.transactionKey) : null;
  const summary = known === undefined ? createSummary(row, transaction!) : known;
  if (summary) pass.summaries.set(summary.transaction.transactionKey, summary);
  pass.byContext.set(context, summary);
  return summary;
}

function createSummary<Transaction extends Keyed>(row: number, transaction: Transaction): Summary<Transaction> {
  return {
    transaction,
    eventCount: 0,
    errorCount: 0,
    firstRow: row,
    slowestRow: row,
    ownEnd: { low: 0, high: 0 },
    writtenBackCount: 0,
    writtenBackBytes: 0,
    writtenBackEnd: { low: 0, high: 0 },
    lastRow: -1,
    isLastWrittenBack: false,
    lastService: 0,
    services: [],
  };
}

function addRow<Transaction extends Keyed>(
  pass: SummaryPass<Transaction>,
  summary: Summary<Transaction>,
  row: number,
  isBack: boolean,
): void {
  const { timestamp, duration, result } = pass;
  const hasOwn = summary.eventCount > summary.writtenBackCount;
  summary.lastRow = row;
  summary.isLastWrittenBack = isBack;
  summary.eventCount++;
  if (result[row * 2 + 1]! >>> 31 === 1) summary.errorCount++;
  // An own event counts as earlier and slower than any write-back event, because a transaction's time is the time that
  // its caller waited.
  const isFirst = isBack === hasOwn ? !isBack : isLess(timestamp, row, summary.firstRow);
  if (isFirst) summary.firstRow = row;
  const isSlower = isBack === hasOwn ? !isBack : isLess(duration, summary.slowestRow, row);
  if (isSlower) summary.slowestRow = row;
  if (isBack) summary.writtenBackCount++;
  extend(isBack ? summary.writtenBackEnd : summary.ownEnd, pass, row);
}

/** Sets `end` to the end of the row's event if that is later. */
function extend(
  end: End,
  { timestamp, duration }: Pick<SummaryPass<Keyed>, 'timestamp' | 'duration'>,
  row: number,
): void {
  const sum = timestamp[row * 2]! + duration[row * 2]!;
  const low = sum >>> 0;
  const high = timestamp[row * 2 + 1]! + duration[row * 2 + 1]! + (sum > 0xffffffff ? 1 : 0);
  if (high < end.high || (high === end.high && low <= end.low)) return;
  end.low = low;
  end.high = high;
}

function isLess(words: Uint32Array, a: number, b: number): boolean {
  const highA = words[a * 2 + 1]!;
  const highB = words[b * 2 + 1]!;
  return highA < highB || (highA === highB && words[a * 2]! < words[b * 2]!);
}
