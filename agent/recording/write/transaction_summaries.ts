/** Updates each transaction's row with the events of a flush. */
import type Database from 'better-sqlite3';
import type { Block } from '../../../bpf/schema/block.ts';
import type { BlockRange } from '../codec/encode_segment.ts';
import { packIds, toStored, unpackIds } from '../format/schema.ts';
import { RecentMap } from '../recent_map.ts';
import { wordsToBigint } from '../words64.ts';
import type { StoredDictionaries } from './stored_dictionaries.ts';
import { summarize } from './transaction_sums.ts';

/** An own event ranks above all write-back. */
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

/** Number of transactions whose services need not be read back; those that continue are among the last. */
const WRITTEN_MAX = 4096;

/** Number of cached lists with a single service, which is what most transactions have. */
const SINGLE_MAX = 1024;

const NO_SERVICES = Buffer.alloc(0);

const SERVICES = 'SELECT services FROM transaction_summary WHERE transaction_key = ?';

const LAST_KEY = 'SELECT coalesce(max(transaction_key), 0) FROM transaction_summary';

type TransactionOf = StoredDictionaries['transactionOf'];

/** Returns a function that writes the summaries of a range; it must run inside the flush's transaction. */
export function summaryWriter(
  database: Database.Database,
  transactionOf: TransactionOf,
): (block: Block, range: BlockRange, numberAt: (row: number) => number) => void {
  const addSummary = database.prepare(ADD_SUMMARY);
  const lastStoredKey = database.prepare<[], number>(LAST_KEY).pluck();
  const storedServices = database.prepare<[number], Buffer>(SERVICES).pluck();
  /** Services of the transactions that were written last, in their stored form. */
  const written = new RecentMap<number, Buffer>(WRITTEN_MAX);
  const single = new RecentMap<number, Buffer>(SINGLE_MAX);
  /** Keys grow: those above this one have no row yet. */
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
        toStored(wordsToBigint(summary.ownEnd.low, summary.ownEnd.high)),
        summary.eventCount,
        summary.errorCount,
        toStored(duration[summary.slowestRow]!),
        numberAt(summary.slowestRow),
        numberAt(summary.lastRow),
        summary.transaction.transactionId,
        summary.transaction.traceId,
        servicesOf(transactionKey, summary.services),
        summary.writtenBackCount,
        summary.writtenBackBytes,
        toStored(wordsToBigint(summary.writtenBackEnd.low, summary.writtenBackEnd.high)),
      );
    }
  };
}
