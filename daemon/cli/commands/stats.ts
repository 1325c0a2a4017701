/** `kreplay stats`: aggregates events by time and group. */

import { Command, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { parseJson, stringify } from '../../base/exact_json.ts';
import { formatTime } from '../../base/time_text.ts';
import type { ExactInteger, StatsAnswer } from '../../contract/received.ts';
import { formatCsvLine } from '../../export/formats/csv_lines.ts';
import { DIMENSION_NAMES } from '../../sums/dimensions.ts';
import { callDaemon, readText } from '../client/connection.ts';
import { warnIfIncomplete } from '../client/coverage_warning.ts';
import { addEventFilters, buildQuery, type EventFilters, filterParameters } from '../options/event_filters.ts';
import { collectLists } from '../options/option_values.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { formatDuration } from '../print/display.ts';
import { print } from '../print/standard_output.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

interface Options extends EventFilters, PlaceOptions {
  bucket?: string;
  groupBy?: string[];
  output: 'table' | 'csv' | 'ndjson' | 'json';
}

type StatsGroup = StatsAnswer['stats'][number];
type GroupColumn = keyof StatsGroup['group'];

const NONE = '-';
const BARS = '▁▂▃▄▅▆▇█';

export function createStatsCommand(): Command {
  const command = new Command('stats').description('count events, bytes, errors and durations');
  addPlaceOptions(addEventFilters(command))
    .option('--bucket <duration>', 'length of a time bucket, which has rows of its own, such as 10s or 1m')
    .option('--group-by <names>', `dimensions to group rows by; a list of ${DIMENSION_NAMES.join(', ')}`, collectLists)
    .addOption(
      new Option('--output <format>', 'ndjson: one row per line; json: one document')
        .choices(['table', 'csv', 'ndjson', 'json'])
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    )
    .action((options: Options) => runAtPlace(options, (url) => sumUp(url, options)));
  return addHelpEnd(command, {
    examples: [
      'kreplay stats --from -15m --group-by service,event_type',
      'kreplay stats --bucket 10s --type sys_sync --output csv',
      'kreplay stats --transaction order-1 --recording incident.kreplay',
    ],
  });
}

async function sumUp(url: string, options: Options): Promise<void> {
  const { bucket, groupBy } = options;
  const query = buildQuery({ ...filterParameters(options), bucket, group_by: groupBy });
  const text = await readText(await callDaemon(url, { path: `/api/stats?${query}` }));
  const { stats, coverage } = parseJson(text) as StatsAnswer;
  warnIfIncomplete(coverage);
  await print(OUTPUTS[options.output](stats, text));
}

const OUTPUTS: Readonly<Record<Options['output'], (stats: readonly StatsGroup[], text: string) => string>> = {
  table: formatStatsTable,
  csv: formatStatsCsv,
  ndjson: (stats) => stats.map((row) => `${stringify(row)}\n`).join(''),
  json: (_, text) => `${text}\n`,
};

const formatDurationCell = (ns: ExactInteger | null) => (ns === null ? NONE : formatDuration(BigInt(ns)));

function formatStatsTable(stats: readonly StatsGroup[]): string {
  const most = Math.max(1, ...stats.map(({ count }) => count));
  const hasBuckets = stats.some(({ bucket_start_ns }) => bucket_start_ns !== null);
  const columns: TextColumn<StatsGroup>[] = [
    ...(hasBuckets
      ? [
          {
            heading: 'FROM',
            cell: ({ bucket_start_ns: at }: StatsGroup) => (at === null ? NONE : formatTime(BigInt(at))),
          },
        ]
      : []),
    ...listDimensions(stats).map((name) => ({
      heading: name.toUpperCase(),
      cell: ({ group }: StatsGroup) => String(group[name] ?? NONE),
    })),
    { heading: 'EVENTS', cell: ({ count }) => count.toString(), align: 'right' },
    { heading: '', cell: ({ count }) => BARS[Math.floor((count / most) * (BARS.length - 1))]! },
    { heading: 'ERRORS', cell: ({ error_count }) => error_count.toString(), align: 'right' },
    { heading: 'BYTES', cell: ({ bytes }) => bytes.toString(), align: 'right' },
    { heading: 'SUM', cell: ({ duration_ns }) => formatDurationCell(duration_ns.sum), align: 'right' },
    { heading: 'P50', cell: ({ duration_ns }) => formatDurationCell(duration_ns.p50), align: 'right' },
    { heading: 'P99', cell: ({ duration_ns }) => formatDurationCell(duration_ns.p99), align: 'right' },
    { heading: 'MAX', cell: ({ duration_ns }) => formatDurationCell(duration_ns.max), align: 'right' },
  ];
  return createTextTable(columns).lines(stats);
}

function formatStatsCsv(stats: readonly StatsGroup[]): string {
  const names = listDimensions(stats);
  const heading = [
    'bucket_start_ns',
    ...names,
    'count',
    'error_count',
    'bytes',
    'sum_ns',
    'p50_ns',
    'p90_ns',
    'p99_ns',
    'max_ns',
  ];
  const rows = stats.map(
    ({ bucket_start_ns, group, count, error_count, bytes, duration_ns: { sum, p50, p90, p99, max } }) => [
      ...[bucket_start_ns, ...names.map((name) => group[name])],
      ...[count, error_count, bytes, sum, p50, p90, p99, max],
    ],
  );
  return [heading, ...rows].map(formatCsvLine).join('');
}

function listDimensions(stats: readonly StatsGroup[]): GroupColumn[] {
  return Object.keys(stats[0]?.group ?? {}) as GroupColumn[];
}
