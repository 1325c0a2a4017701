/** Formats the demo's results: what happened, what was slow, and how to continue. */
import { basename } from 'node:path';
import { printable } from '../../../agent/output/printable.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { what } from '../player/played_text.ts';
import { formatDuration } from '../print/display.ts';
import { bytesOf } from '../print/event_table.ts';
import { newTable, type TableColumn } from '../print/table.ts';
import type { Recorded } from './recorded.ts';
import { TRANSACTION } from './workload.ts';

const SLOWEST = 5;
const MILLISECOND_NS = 1_000_000n;
const PERCENT = 100n;

type Call = Exclude<ApiEvent, { event_type: 'block_io' }>;

const isCall = (event: ApiEvent): event is Call => event.event_type !== 'block_io';
const sizeOf = ({ duration_ns }: ApiEvent) => BigInt(duration_ns);
const sumOf = (events: readonly ApiEvent[]) => events.reduce((sum, event) => sum + sizeOf(event), 0n);

export function reportText({ transaction, events, complete }: Recorded): string {
  const { first_timestamp_ns, duration_ns, services } = transaction;
  const share = (ns: bigint) => `${(ns * PERCENT) / (BigInt(duration_ns) || 1n)}%`;
  const calls = events.filter(isCall).sort((a, b) => (sizeOf(a) < sizeOf(b) ? 1 : -1));
  const columns: TableColumn<ApiEvent>[] = [
    {
      heading: 'BEGAN',
      cell: ({ timestamp_ns }) => `+${formatDuration(BigInt(timestamp_ns) - BigInt(first_timestamp_ns))}`,
      align: 'right',
    },
    { heading: 'DURATION', cell: (event) => formatDuration(sizeOf(event)), align: 'right' },
    { heading: 'SHARE', cell: (event) => share(sizeOf(event)), align: 'right' },
    { heading: 'PROGRAM', cell: ({ comm }) => comm },
    { heading: 'BYTES', cell: bytesOf, align: 'right' },
    { heading: 'CALL', cell: what },
  ];
  const counts = `${calls.length} writes and syncs, ${events.length - calls.length} requests to the disk`;
  const missing = complete ? 'none missing' : 'and some may be missing';
  return `${TRANSACTION} of ${printable(services.join(', '))} took ${formatDuration(BigInt(duration_ns))}: ${counts}, ${missing}.

The slowest calls:
${newTable(columns).lines(calls.slice(0, SLOWEST))}
${slowSpot(calls, share)}
`;
}

/** The program waits for each of its calls, so their times add up to a part of its own time. */
function slowSpot(calls: readonly Call[], share: (ns: bigint) => string): string {
  const byFile = [...Map.groupBy(calls, ({ file }) => file ?? 'files without a name')];
  const [slowest] = byFile.sort(([, a], [, b]) => (sumOf(a) < sumOf(b) ? 1 : -1));
  if (!slowest) return 'No call of it was recorded.';
  const [file, own] = slowest;
  const syncs = own.filter(({ event_type }) => event_type === 'sys_sync');
  const parts = `${own.length - syncs.length} writes, and ${formatDuration(sumOf(syncs))} until it was on the disk`;
  return `${share(sumOf(own))} of the time went into ${printable(basename(file))}: ${parts}.`;
}

export interface NextStepOptions {
  /** Command that starts kreplay in this shell. */
  program: string;
  /** `--url ...` or `--recording ...`; empty if the default is right. */
  asked: string;
  /** The same option for `kreplay run`. */
  run: string;
  script: string;
}

/** Quotes text for a shell, if necessary. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The timeout of a caller that would have waited for twice as long. */
function timeoutOf({ transaction: { duration_ns } }: Recorded): string {
  return `${(BigInt(duration_ns) * 2n) / MILLISECOND_NS + 1n}ms`;
}

export function nextSteps(recorded: Recorded, { program, asked, run, script }: NextStepOptions): string {
  const of = (...words: string[]) => `  ${[program, ...words].filter((word) => word !== '').join(' ')}\n`;
  return [
    'what it did, call by call:\n',
    of('events', asked, '--transaction', TRANSACTION, '--min-duration', '1ms'),
    'whether a caller would have got its answer in time if each call had taken 2 ms longer:\n',
    of('whatif', TRANSACTION, asked, '--extra-latency', '2ms', '--timeout', timeoutOf(recorded), '--output', 'table'),
    'the same program again, with every call as slow as that:\n',
    of('run', run, '--transaction', TRANSACTION, '--extra-latency', '2ms', '--', 'sh', shellWord(script)),
  ].join('');
}
