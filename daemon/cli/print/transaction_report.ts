/** Formats the answer of `GET /api/transactions/{transaction_id}/summary`: how a transaction spent its time. */

import { escapeControls } from '../../../agent/output/printable.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { ExactInteger, ExplanationAnswer, ListedTransaction } from '../../contract/received.ts';
import { formatDuration } from './display.ts';
import { describeEvent, formatEventBytes } from './event_table.ts';
import { createTextTable, type TextColumn } from './table.ts';

type ListedFileSums = ListedTransaction['files'][number];
type Neighbour = ExplanationAnswer['neighbours'][number];
type Burst = ExplanationAnswer['bursts'][number];

const NEIGHBOURS_MAX = 5;
const BURSTS_MAX = 5;

const PERCENT = 100n;
const NO_FILE = '-';
const UNKNOWN = '-';

const formatNs = (ns: ExactInteger) => formatDuration(BigInt(ns));

/**
 * Formats a duration as a share of the transaction's duration. Calls of several threads overlap, so the sum of all
 * shares may be over 100 %.
 */
const share = ({ duration_ns }: Pick<TimeBase, 'duration_ns'>, ns: ExactInteger) =>
  `${(BigInt(ns) * PERCENT) / (BigInt(duration_ns) || 1n)}%`;

type TimeBase = Pick<ListedTransaction['transaction'], 'first_timestamp_ns' | 'duration_ns'>;

/** Formats the first lines of the report: what took the time, and how many events are recorded. */
export function formatHeadline(
  { transaction, calls, requests }: ListedTransaction,
  explanation: ExplanationAnswer | undefined,
  isComplete: boolean,
): string {
  const { transaction_id, services, duration_ns } = transaction;
  const whose = escapeControls(`${transaction_id} of ${services.join(', ')}`);
  const sentence =
    explanation?.sentence ?? `${whose} took ${formatNs(duration_ns)}; it has too many events to explain.`;
  const ambiguous = requests.ambiguous_count > 0 ? `, ${requests.ambiguous_count} of them ambiguous` : '';
  const counts = `${calls.count} writes and syncs, ${requests.count} requests to the disk${ambiguous}`;
  const missing = isComplete ? 'none missing' : 'and some may be missing';
  return `${sentence}\n${counts}, ${missing}.`;
}

/** Formats the services that used the same devices during the transaction; undefined if there were none. */
export function formatNeighbourTable({ neighbours, neighbours_complete }: ExplanationAnswer): string | undefined {
  const cut = 'and requests that were not counted, because there were too many\n';
  if (neighbours.length === 0) return neighbours_complete ? undefined : `none ${cut}`;
  const areOfSeveral = neighbours.some(({ node }) => node !== neighbours[0]!.node);
  const columns: TextColumn<Neighbour>[] = [
    { heading: 'REQUESTS', cell: ({ count }) => count.toString(), align: 'right' },
    { heading: 'BYTES', cell: ({ bytes }) => bytes.toString(), align: 'right' },
    ...(areOfSeveral ? [{ heading: 'NODE', cell: ({ node }: Neighbour) => node }] : []),
    { heading: 'DEVICE', cell: ({ device }) => device ?? UNKNOWN },
    { heading: 'SERVICE', cell: ({ name }) => name },
  ];
  const shown = neighbours.slice(0, NEIGHBOURS_MAX);
  const more = neighbours.length - shown.length;
  return (
    createTextTable(columns).lines(shown) +
    (more > 0 ? `and ${more} more; --output json shows all of them\n` : '') +
    (neighbours_complete ? '' : cut)
  );
}

/** Formats the bursts of a transaction whose id was probably used several times; undefined for a single burst. */
export function formatBursts({ bursts }: ExplanationAnswer): string | undefined {
  if (bursts.length < 2) return undefined;
  const formatBurst = ({ from, to, event_count }: Burst) =>
    `  --from ${from} --to ${BigInt(to) + 1n}   ${event_count} events in ${formatNs(BigInt(to) - BigInt(from))}\n`;
  const shown = bursts.slice(0, BURSTS_MAX).map(formatBurst).join('');
  const more = bursts.length > BURSTS_MAX ? `  and ${bursts.length - BURSTS_MAX} more\n` : '';
  return `Its id may have been used ${bursts.length} times; these explain one of them:\n${shown}${more}`;
}

/**
 * Formats the slowest calls. `base` is the transaction or the burst to which the start times and shares of the calls
 * are relative.
 */
export function formatSlowestTable({ slowest }: Pick<ListedTransaction, 'slowest'>, base: TimeBase): string {
  const computeBeginNs = ({ timestamp_ns }: ApiEvent) => BigInt(timestamp_ns) - BigInt(base.first_timestamp_ns);
  const columns: TextColumn<ApiEvent>[] = [
    { heading: 'BEGAN', cell: (event) => `+${formatDuration(computeBeginNs(event))}`, align: 'right' },
    { heading: 'DURATION', cell: ({ duration_ns }) => formatNs(duration_ns), align: 'right' },
    { heading: 'SHARE', cell: ({ duration_ns }) => share(base, duration_ns), align: 'right' },
    { heading: 'PROGRAM', cell: ({ comm }) => comm },
    { heading: 'BYTES', cell: formatEventBytes, align: 'right' },
    { heading: 'CALL', cell: (event) => [describeEvent(event), event.error].filter(Boolean).join(' ') },
  ];
  return createTextTable(columns).lines(slowest);
}

export function formatFileTable(summary: ListedTransaction): string {
  const columns: TextColumn<ListedFileSums>[] = [
    { heading: 'DURATION', cell: ({ duration_ns }) => formatNs(duration_ns), align: 'right' },
    { heading: 'SHARE', cell: ({ duration_ns }) => share(summary.transaction, duration_ns), align: 'right' },
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

/** Formats how much of the transaction's data the kernel wrote back later; undefined if it wrote none. */
export function formatLaterWrites({ transaction }: ListedTransaction): string | undefined {
  const { written_back: back, last_end_ns } = transaction;
  if (back.count === 0 || back.last_end_ns === null) return undefined;
  const laterNs = BigInt(back.last_end_ns) - BigInt(last_end_ns);
  const requests = back.count === 1 ? '1 request' : `${back.count} requests`;
  const when = laterNs > 0n ? `until ${formatDuration(laterNs)} after its end` : 'before its end';
  return `${requests} of the kernel wrote ${back.bytes} bytes of its data back, ${when}.`;
}
