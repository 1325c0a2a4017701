/** Adds what a flush brings to each transaction's row. An event counts for every transaction that owns a part of it. */
import type Database from 'better-sqlite3';
import type { Block } from '../../bpf/schema/block.ts';
import type { Column } from '../../bpf/schema/columns.ts';
import type { BlockRange } from './codec/encode_segment.ts';
import { packIds, toStored, unpackIds } from './format.ts';
import { ORIGINS, OWN } from './owner_columns.ts';
import { RecentMap } from './recent_map.ts';
import type { ContextTransaction, StoredDictionaries } from './stored_dictionaries.ts';
import { wordsOf, wordsToBigint } from './words64.ts';

const ADD_SUMMARY = `
INSERT INTO transaction_summary (
  transaction_key, first_timestamp_ns, last_end_ns, event_count, error_count, slowest_duration_ns, slowest_number,
  last_number, transaction_id, trace_id, services
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (transaction_key) DO UPDATE SET
  first_timestamp_ns = min(first_timestamp_ns, excluded.first_timestamp_ns),
  last_end_ns = max(last_end_ns, excluded.last_end_ns),
  event_count = event_count + excluded.event_count,
  error_count = error_count + excluded.error_count,
  slowest_number = iif(
    excluded.slowest_duration_ns > slowest_duration_ns, excluded.slowest_number, slowest_number
  ),
  slowest_duration_ns = max(slowest_duration_ns, excluded.slowest_duration_ns),
  last_number = max(last_number, excluded.last_number),
  services = excluded.services`;

/** Transactions whose services need not be read back; those that go on are among the last. */
const WRITTEN_MAX = 4096;

/** Services that are the only one of a transaction, as most are. */
const SINGLE_MAX = 1024;

const NO_SERVICES = Buffer.alloc(0);

const SERVICES = 'SELECT services FROM transaction_summary WHERE transaction_key = ?';

const LAST_KEY = 'SELECT coalesce(max(transaction_key), 0) FROM transaction_summary';

interface Summary {
  transaction: ContextTransaction;
  eventCount: number;
  errorCount: number;
  /** Rows of the earliest and of the slowest event. */
  firstRow: number;
  slowestRow: number;
  endLow: number;
  endHigh: number;
  lastRow: number;
  lastService: number;
  services: number[];
}

type TransactionOf = StoredDictionaries['transactionOf'];

/** Gives a function that writes the summaries of a range; it runs inside the flush's transaction. */
export function summaryWriter(
  database: Database.Database,
  transactionOf: TransactionOf,
): (block: Block, range: BlockRange, numberAt: (row: number) => number) => void {
  const addSummary = database.prepare(ADD_SUMMARY);
  const lastStoredKey = database.prepare<[], number>(LAST_KEY).pluck();
  const storedServices = database.prepare<[number], Buffer>(SERVICES).pluck();
  /** Services of the transactions that were written last, as they are stored. */
  const written = new RecentMap<number, Buffer>(WRITTEN_MAX);
  const single = new RecentMap<number, Buffer>(SINGLE_MAX);
  /** Keys grow: those above have no row yet. */
  let lastKey = lastStoredKey.get()!;

  function storedBefore(transactionKey: number): Buffer {
    if (transactionKey > lastKey) return NO_SERVICES;
    return written.get(transactionKey) ?? storedServices.get(transactionKey) ?? NO_SERVICES;
  }

  function packed(services: readonly number[]): Buffer {
    const [only] = services;
    if (services.length !== 1) return packIds(Uint32Array.from(services));
    const known = single.get(only!);
    if (known) return known;
    const bytes = packIds(Uint32Array.of(only!));
    single.set(only!, bytes);
    return bytes;
  }

  function servicesOf(transactionKey: number, found: readonly number[]): Buffer {
    let all = storedBefore(transactionKey);
    lastKey = Math.max(lastKey, transactionKey);
    if (all.length === 0) all = packed(found);
    else {
      const ids = [...unpackIds(all)];
      const added = found.filter((id) => !ids.includes(id));
      if (added.length > 0) all = packed([...ids, ...added]);
    }
    written.set(transactionKey, all);
    return all;
  }

  return (block, range, numberAt) => {
    const timestamp = block.columns.get('timestamp_ns')! as BigUint64Array;
    const duration = block.columns.get('duration_ns')! as BigUint64Array;
    for (const [transactionKey, summary] of summarize(block, range, transactionOf)) {
      addSummary.run(
        transactionKey,
        toStored(timestamp[summary.firstRow]!),
        toStored(wordsToBigint(summary.endLow, summary.endHigh)),
        summary.eventCount,
        summary.errorCount,
        toStored(duration[summary.slowestRow]!),
        numberAt(summary.slowestRow),
        numberAt(summary.lastRow),
        summary.transaction.transactionId,
        summary.transaction.traceId,
        servicesOf(transactionKey, summary.services),
      );
    }
  };
}

/** The columns that a pass over the rows reads, and what it has found so far. */
interface Pass {
  timestamp: Uint32Array;
  duration: Uint32Array;
  result: Uint32Array;
  summaries: Map<number, Summary>;
  transactionOf: TransactionOf;
  /** Far smaller than what `transactionOf` searches; null: no transaction. */
  byContext: Map<number, Summary | null>;
  /** Neighbouring rows mostly have the same owner. */
  lastContext: number;
  lastSummary: Summary | null;
}

function summarize(block: Block, range: BlockRange, transactionOf: TransactionOf): Map<number, Summary> {
  const ids = ({ name }: Column) => block.columns.get(name)! as Uint32Array;
  const words = (name: string) => wordsOf(block.columns.get(name)! as BigUint64Array);
  const pass: Pass = {
    timestamp: words('timestamp_ns'),
    duration: words('duration_ns'),
    result: words('result'),
    summaries: new Map(),
    transactionOf,
    byContext: new Map(),
    lastContext: 0,
    lastSummary: null,
  };
  const eventType = block.columns.get('event_type')! as Uint8Array;
  const [ownContext, ownService] = [ids(OWN.context), ids(OWN.service)];
  const originsByType = Array.from(block.typeCounts, (_, type) =>
    ORIGINS.filter((origin) => origin.eventType === type).map(({ context, service }) => ({
      contexts: ids(context),
      services: ids(service),
    })),
  );
  const place = range.typeFrom.slice();
  for (let row = range.from; row < range.to; row++) {
    const type = eventType[row]!;
    const at = place[type]!++;
    addOwner(pass, row, ownContext[row]!, ownService[row]!);
    const origins = originsByType[type]!;
    for (let slot = 0; slot < origins.length; slot++) {
      addOwner(pass, row, origins[slot]!.contexts[at]!, origins[slot]!.services[at]!);
    }
  }
  return pass.summaries;
}

function addOwner(pass: Pass, row: number, context: number, service: number): void {
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
  // An owner of several parts of a request owns one event.
  if (summary.lastRow !== row) addRow(pass, summary, row);
}

function addContext(pass: Pass, row: number, context: number): Summary | null {
  const transaction = pass.transactionOf(context);
  const known = transaction ? pass.summaries.get(transaction.transactionKey) : null;
  const summary = known === undefined ? newSummary(row, transaction!) : known;
  if (summary) pass.summaries.set(summary.transaction.transactionKey, summary);
  pass.byContext.set(context, summary);
  return summary;
}

function newSummary(row: number, transaction: ContextTransaction): Summary {
  return {
    transaction,
    eventCount: 0,
    errorCount: 0,
    firstRow: row,
    slowestRow: row,
    endLow: 0,
    endHigh: 0,
    lastRow: -1,
    lastService: 0,
    services: [],
  };
}

function addRow({ timestamp, duration, result }: Pass, summary: Summary, row: number): void {
  const low = row * 2;
  const high = low + 1;
  summary.lastRow = row;
  summary.eventCount++;
  if (result[high]! >>> 31 === 1) summary.errorCount++;
  if (isLess(timestamp, row, summary.firstRow)) summary.firstRow = row;
  if (isLess(duration, summary.slowestRow, row)) summary.slowestRow = row;
  const sum = timestamp[low]! + duration[low]!;
  const endLow = sum >>> 0;
  const endHigh = timestamp[high]! + duration[high]! + (sum > 0xffffffff ? 1 : 0);
  if (endHigh > summary.endHigh || (endHigh === summary.endHigh && endLow > summary.endLow)) {
    summary.endLow = endLow;
    summary.endHigh = endHigh;
  }
}

function isLess(words: Uint32Array, a: number, b: number): boolean {
  const highA = words[a * 2 + 1]!;
  const highB = words[b * 2 + 1]!;
  return highA < highB || (highA === highB && words[a * 2]! < words[b * 2]!);
}
