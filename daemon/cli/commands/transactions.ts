/** `kreplay transactions`: lists transactions that can be replayed. */

import { Command, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { EVENT_TYPES } from '../../../bpf/schema/index.ts';
import { parseJson, stringify } from '../../base/exact_json.ts';
import { formatTime } from '../../base/time_text.ts';
import type {
  ReceivedCoverage,
  ReceivedTransaction,
  ReceivedWrittenBack,
  TransactionList,
} from '../../contract/received.ts';
import { transactionSchema, writtenBackSchema } from '../../contract/transactions.ts';
import { formatCsvLine } from '../../export/formats/csv_lines.ts';
import { formatBurstCount } from '../../model/explanation/bursts.ts';
import { callDaemon, readText } from '../client/connection.ts';
import { warnIfIncomplete } from '../client/coverage_warning.ts';
import { buildQuery } from '../options/event_filters.ts';
import { collectLists, parseDurationMs, positiveInteger, timeText } from '../options/option_values.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { addValueFilters, buildValueParameters, type ValueFilters } from '../options/value_filters.ts';
import { formatDuration } from '../print/display.ts';
import { print } from '../print/standard_output.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

const LIMIT_DEFAULT = 20;
const PAGE_MAX = 1000;

interface Options extends PlaceOptions, ValueFilters {
  service?: string[];
  node?: string[];
  type?: string[];
  comm?: string[];
  from?: string;
  to?: string;
  minDuration?: string;
  maxDuration?: string;
  hasError?: true;
  search?: string;
  sort: string;
  limit: number;
  output: 'table' | 'csv' | 'ndjson' | 'json';
}

const COLUMNS: readonly TextColumn<ReceivedTransaction>[] = [
  { heading: 'BEGAN', cell: ({ first_timestamp_ns }) => formatTime(BigInt(first_timestamp_ns)) },
  { heading: 'DURATION', cell: ({ duration_ns }) => formatDuration(BigInt(duration_ns)), align: 'right' },
  { heading: 'EVENTS', cell: ({ event_count }) => event_count.toString(), align: 'right' },
  { heading: 'ERRORS', cell: ({ error_count }) => error_count.toString(), align: 'right' },
  { heading: 'WRITTEN BACK', cell: formatWrittenBack, align: 'right' },
  { heading: 'TRANSACTION', cell: ({ transaction_id }) => transaction_id },
  { heading: 'SERVICES', cell: ({ services }) => services.join(', ') },
];

/**
 * Column that is shown only if a transaction has several bursts of events. Its id was then probably used several times,
 * so its duration has no meaning for a single use.
 */
const BURSTS: TextColumn<ReceivedTransaction> = { heading: 'ID USED AGAIN?', cell: formatBurstCell };

function listColumns(transactions: readonly ReceivedTransaction[]): readonly TextColumn<ReceivedTransaction>[] {
  return transactions.some(({ burst_count }) => burst_count !== null && burst_count > 1)
    ? [...COLUMNS, BURSTS]
    : COLUMNS;
}

function formatBurstCell({ burst_count, bursts_apart_ns }: ReceivedTransaction): string {
  if (burst_count === null) return 'not known';
  return burst_count > 1 ? formatBurstCount(burst_count, BigInt(bursts_apart_ns!)) : '-';
}

/**
 * Prints how many transactions have an unknown number of bursts. Without this line, a table without the column would
 * look as if no id was used again.
 */
function tellUnknownBursts(transactions: readonly ReceivedTransaction[]): void {
  const count = transactions.filter(({ burst_count }) => burst_count === null).length;
  if (count === 0) return;
  const whose = count === 1 ? '1 of these ids was' : `${count} of these ids were`;
  process.stderr.write(`kreplay: whether ${whose} used again is not known: kreplay show TRANSACTION looks at one\n`);
}

export function createTransactionsCommand(): Command {
  const command = new Command('transactions')
    .description('list transactions: the latest, or the slowest')
    .option(
      '--service <names>',
      'only transactions in which these services took part; comma-separated or repeated: any of them',
      collectLists,
    )
    .option('--node <names>', 'only transactions that these hosts recorded a part of; likewise a list', collectLists)
    .option(
      '--from <time>',
      'only transactions that began at or after this time: 2026-11-20T10:00:00Z, nanoseconds, or -15m',
      timeText,
    )
    .option('--to <time>', 'only transactions that began before this time', timeText)
    .option('--min-duration <duration>', 'minimum duration, such as 50us, 2ms, 1.5s', parseDurationMs)
    .option('--max-duration <duration>', 'maximum duration, likewise', parseDurationMs)
    .option('--has-error', 'only transactions with an event that failed')
    .option('--search <text>', 'only transactions whose id contains this text, in upper or lower case')
    .addOption(new Option('--sort <order>', 'sort order').choices(['recent', 'slowest']).default('recent'))
    .option('--limit <count>', 'maximum number of transactions', positiveInteger, LIMIT_DEFAULT)
    .addOption(
      new Option('--output <format>', 'ndjson: one transaction per line; json: one document')
        .choices(['table', 'csv', 'ndjson', 'json'])
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    );
  command
    .option(
      '--type <types>',
      `only transactions with an event of these types: ${EVENT_TYPES.join(', ')}; a list`,
      collectLists,
    )
    .option(
      '--comm <names>',
      'only transactions with an event of threads with these command names; a list',
      collectLists,
    );
  addPlaceOptions(addValueFilters(command, 'transactions')).action((options: Options) =>
    runAtPlace(options, (url) => listTransactions(url, options)),
  );
  return addHelpEnd(command, {
    examples: [
      'kreplay transactions',
      'kreplay transactions --service shop --sort slowest --from -15m --limit 5',
      'kreplay transactions --search 4711',
      'kreplay transactions --device nvme1n1 --exclude-comm backup --from -15m',
      'kreplay transactions --recording incident.kreplay --has-error --output ndjson',
    ],
  });
}

/**
 * Formats the number of bytes that the kernel wrote back, and the time from the end of the transaction's last event to
 * the end of the last write-back.
 */
function formatWrittenBack({ written_back, last_end_ns }: ReceivedTransaction): string {
  const { count, bytes, last_end_ns: backEndNs } = written_back;
  if (count === 0 || backEndNs === null) return '-';
  const laterNs = BigInt(backEndNs) - BigInt(last_end_ns);
  return `${bytes} bytes, until ${laterNs > 0n ? `${formatDuration(laterNs)} later` : 'then'}`;
}

async function listTransactions(url: string, options: Options): Promise<void> {
  const { transactions, coverage } = await readTransactions(url, options);
  if (coverage) warnIfIncomplete(coverage);
  await print(OUTPUTS[options.output](transactions));
  if (options.output === 'table') tellUnknownBursts(transactions);
}

const OUTPUTS: Readonly<Record<Options['output'], (transactions: readonly ReceivedTransaction[]) => string>> = {
  table: (transactions) => createTextTable(listColumns(transactions)).lines(transactions),
  csv: formatTransactionsCsv,
  ndjson: (transactions) => transactions.map((transaction) => `${stringify(transaction)}\n`).join(''),
  json: (transactions) => `${stringify({ transactions })}\n`,
};

interface CsvColumn {
  name: string;
  value: (transaction: ReceivedTransaction) => unknown;
}

/** The columns of the CSV output, derived from the API's schema. An object has one column for each of its fields. */
const CSV_COLUMNS: readonly CsvColumn[] = Object.keys(transactionSchema.shape).flatMap((name): CsvColumn[] => {
  if (name !== 'written_back')
    return [{ name, value: (transaction) => transaction[name as keyof ReceivedTransaction] }];
  return Object.keys(writtenBackSchema.shape).map((field) => ({
    name: `${name}_${field}`,
    value: ({ written_back }) => written_back[field as keyof ReceivedWrittenBack],
  }));
});

/** Formats transactions as CSV. Lists are written as JSON, because a name may contain a comma. */
function formatTransactionsCsv(transactions: readonly ReceivedTransaction[]): string {
  const formatCell = (value: unknown) =>
    Array.isArray(value) || typeof value === 'boolean' ? stringify(value) : value;
  const rows = transactions.map((transaction) => CSV_COLUMNS.map(({ value }) => formatCell(value(transaction))));
  return [CSV_COLUMNS.map(({ name }) => name), ...rows].map(formatCsvLine).join('');
}

async function readTransactions(url: string, options: Options) {
  const { service, node, type, comm, from, to, minDuration, maxDuration, hasError, search, sort, limit } = options;
  const filters = {
    service,
    node,
    event_type: type,
    comm,
    from,
    to,
    min_duration_ms: minDuration,
    max_duration_ms: maxDuration,
    q: search,
    ...buildValueParameters(options),
  };
  const transactions: ReceivedTransaction[] = [];
  let coverage: ReceivedCoverage | undefined;
  // All pages use the same limit, because a cursor is only valid with the limit of its page.
  const parameters = { ...filters, has_error: hasError && 'true', sort, limit: `${Math.min(limit, PAGE_MAX)}` };
  for (let cursor: string | undefined; ; ) {
    const res = await callDaemon(url, { path: `/api/transactions?${buildQuery({ ...parameters, cursor })}` });
    const page = parseJson(await readText(res)) as TransactionList;
    transactions.push(...page.transactions);
    // The coverage of the first page applies to all pages, because all pages have the same window.
    coverage ??= page.coverage;
    if (page.next_cursor === null || transactions.length >= limit) break;
    cursor = page.next_cursor;
  }
  return { transactions: transactions.slice(0, limit), coverage };
}
