/** `kreplay events`: the query API at a terminal. */
import { Command, Option } from 'commander';
import { EVENT_TYPES } from '../../bpf/schema/index.ts';
import { LIMIT_MAX } from '../query/event_query.ts';
import { callDaemon, DEFAULT_URL, readLines } from './connection.ts';
import { warnOfLosses } from './coverage_warning.ts';
import { OUTPUTS, type Output, PRINTERS } from './event_printers.ts';
import { daemonUrl, list, milliseconds, positiveInteger, timeText, URL_HELP } from './option_values.ts';

const TABLE_LIMIT_DEFAULT = 100;

interface Options {
  transaction?: string;
  trace?: string;
  service?: string[];
  node?: string[];
  type?: string[];
  from?: string;
  to?: string;
  minDuration?: string;
  maxDuration?: string;
  pid?: number;
  comm?: string;
  failed?: true;
  order: string;
  limit?: number;
  url: string;
  output: Output;
}

export function eventsCommand(): Command {
  return new Command('events')
    .description('list recorded events')
    .option('--transaction <id>', 'events of one transaction')
    .option('--trace <id>', 'W3C trace id, 32 hex digits')
    .option('--service <names>', 'service; comma-separated or given again: any of them', list)
    .option('--node <names>', 'host that recorded it; likewise a list', list)
    .option('--type <types>', `${EVENT_TYPES.join(', ')}; likewise a list`, list)
    .option('--from <time>', 'start of the window, included: 2026-11-20T10:00:00Z, nanoseconds, or -15m', timeText)
    .option('--to <time>', 'end of the window, not included', timeText)
    .option('--min-duration <duration>', 'such as 50us, 2ms, 1.5s', milliseconds)
    .option('--max-duration <duration>', 'likewise', milliseconds)
    .option('--pid <pid>', 'process id', positiveInteger)
    .option('--comm <name>', 'command name of the thread')
    .option('--failed', 'only what ended with an error')
    .addOption(new Option('--order <order>', 'by time').choices(['asc', 'desc']).default('asc'))
    .option(
      '--limit <count>',
      `at most so many (default: ${TABLE_LIMIT_DEFAULT} in a table, else all)`,
      positiveInteger,
    )
    .option('--url <url>', URL_HELP, daemonUrl, DEFAULT_URL)
    .addOption(
      new Option('--output <format>', 'ndjson is one event a line, json one document')
        .choices(OUTPUTS)
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    )
    .action(listEvents);
}

async function listEvents(options: Options): Promise<void> {
  const { url, output } = options;
  const limit = options.limit ?? (output === 'table' ? TABLE_LIMIT_DEFAULT : Number.POSITIVE_INFINITY);
  const query = queryOf(options);
  // One more than is shown tells whether there are more. Beyond the daemon's limit, leaving the stream ends it.
  const asked = new URLSearchParams(limit < LIMIT_MAX ? [...query, ['limit', `${limit + 1}`]] : query);
  const res = await callDaemon(url, { path: `/api/events?${asked}`, accept: 'application/x-ndjson' });
  if (res.headers['kreplay-complete'] === 'false') await warnOfLosses(url, query);
  let more = false;
  await PRINTERS[output](
    firstOf(readLines(res), limit, () => {
      more = true;
    }),
  );
  if (more && output === 'table') process.stderr.write(`kreplay: there are more than these ${limit}: see --limit\n`);
}

async function* firstOf(lines: AsyncIterable<string>, limit: number, onMore: () => void): AsyncGenerator<string, void> {
  let count = 0;
  for await (const line of lines) {
    if (count === limit) return onMore();
    count++;
    yield line;
  }
}

function queryOf(options: Options): URLSearchParams {
  const parameters: Record<string, string | undefined> = {
    transaction_id: options.transaction,
    trace_id: options.trace,
    service: options.service?.join(),
    node: options.node?.join(),
    event_type: options.type?.join(),
    from: options.from,
    to: options.to,
    min_duration_ms: options.minDuration,
    max_duration_ms: options.maxDuration,
    pid: options.pid?.toString(),
    comm: options.comm,
    failed: options.failed && 'true',
    order: options.order,
  };
  return new URLSearchParams(
    Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
