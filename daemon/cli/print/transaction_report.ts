/** Formats how a transaction spent its time, from the answer of `GET /api/transactions/{transaction_id}/summary`. */

import { basename } from 'node:path';
import { escapeControls } from '../../../agent/output/printable.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { ExactInteger, ListedTransaction } from '../../contract/received.ts';
import { formatDuration } from './display.ts';
import { describeEvent, formatEventBytes } from './event_table.ts';
import { createTextTable, type TextColumn } from './table.ts';

type FileSums = ListedTransaction['files'][number];

const PERCENT = 100n;
const NO_FILE = '-';

const formatNs = (ns: ExactInteger) => formatDuration(BigInt(ns));

/** Formats the share of the caller's time; the shares of calls of several threads may add up to more than 100 %. */
const share = ({ transaction }: ListedTransaction, ns: ExactInteger) =>
  `${(BigInt(ns) * PERCENT) / (BigInt(transaction.duration_ns) || 1n)}%`;

export function formatHeadline({ transaction, calls, requests }: ListedTransaction, isComplete: boolean): string {
  const { transaction_id, services, duration_ns } = transaction;
  const ambiguous = requests.ambiguous_count > 0 ? `, ${requests.ambiguous_count} of them ambiguous` : '';
  const counts = `${calls.count} writes and syncs, ${requests.count} requests to the disk${ambiguous}`;
  const missing = isComplete ? 'none missing' : 'and some may be missing';
  return `${escapeControls(`${transaction_id} of ${services.join(', ')}`)} took ${formatNs(duration_ns)}: ${counts}, ${missing}.`;
}

export function formatSlowestTable(summary: ListedTransaction): string {
  const computeBeginNs = ({ timestamp_ns }: ApiEvent) =>
    BigInt(timestamp_ns) - BigInt(summary.transaction.first_timestamp_ns);
  const columns: TextColumn<ApiEvent>[] = [
    { heading: 'BEGAN', cell: (event) => `+${formatDuration(computeBeginNs(event))}`, align: 'right' },
    { heading: 'DURATION', cell: ({ duration_ns }) => formatNs(duration_ns), align: 'right' },
    { heading: 'SHARE', cell: ({ duration_ns }) => share(summary, duration_ns), align: 'right' },
    { heading: 'PROGRAM', cell: ({ comm }) => comm },
    { heading: 'BYTES', cell: formatEventBytes, align: 'right' },
    { heading: 'CALL', cell: (event) => [describeEvent(event), event.error].filter(Boolean).join(' ') },
  ];
  return createTextTable(columns).lines(summary.slowest);
}

export function formatFileTable(summary: ListedTransaction): string {
  const columns: TextColumn<FileSums>[] = [
    { heading: 'DURATION', cell: ({ duration_ns }) => formatNs(duration_ns), align: 'right' },
    { heading: 'SHARE', cell: ({ duration_ns }) => share(summary, duration_ns), align: 'right' },
    { heading: 'WRITES', cell: ({ count, sync_count }) => `${count - sync_count}`, align: 'right' },
    { heading: 'BYTES', cell: ({ bytes }) => bytes.toString(), align: 'right' },
    { heading: 'SYNCS', cell: ({ sync_count }) => sync_count.toString(), align: 'right' },
    { heading: 'IN SYNCS', cell: ({ sync_duration_ns }) => formatNs(sync_duration_ns), align: 'right' },
    { heading: 'ERRORS', cell: ({ error_count }) => error_count.toString(), align: 'right' },
    { heading: 'FILE', cell: ({ file }) => file ?? NO_FILE },
  ];
  const more = summary.file_count - summary.files.length;
  return (
    createTextTable(columns).lines(summary.files) +
    (more > 0 ? `and ${more} more files; --limit shows more of them\n` : '')
  );
}

/** Describes the file that took most of the time. */
export function describeSlowSpot(summary: ListedTransaction): string {
  const [slowest] = summary.files;
  if (!slowest) return 'No call of it was recorded.';
  const { file, count, sync_count, sync_duration_ns, duration_ns } = slowest;
  const name = file === null ? 'files without a name' : escapeControls(basename(file));
  const writes = count - sync_count;
  const parts = [
    writes > 0 && (writes === 1 ? '1 write' : `${writes} writes`),
    sync_count > 0 && `${formatNs(sync_duration_ns)} until it was on the disk`,
  ];
  return `${share(summary, duration_ns)} of the time went into ${name}: ${parts.filter(Boolean).join(', and ')}.`;
}

/** Formats the amount of the transaction's data that the kernel wrote back later; undefined if there was none. */
export function formatLaterWrites({ transaction }: ListedTransaction): string | undefined {
  const { written_back: back, last_end_ns } = transaction;
  if (back.count === 0 || back.last_end_ns === null) return undefined;
  const laterNs = BigInt(back.last_end_ns) - BigInt(last_end_ns);
  const requests = back.count === 1 ? '1 request' : `${back.count} requests`;
  const when = laterNs > 0n ? `until ${formatDuration(laterNs)} after its end` : 'before its end';
  return `${requests} of the kernel wrote ${back.bytes} bytes of its data back, ${when}.`;
}
