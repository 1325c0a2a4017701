/** `kreplay events`: queries events from a terminal. */
import { Command, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { LIMIT_MAX } from '../../contract/event_query.ts';
import { callDaemon, readLines } from '../client/connection.ts';
import { warnOfLosses } from '../client/coverage_warning.ts';
import { addEventFilters, buildQuery, type EventFilters, filterParameters } from '../options/event_filters.ts';
import { positiveInteger } from '../options/option_values.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { type EventOutput, OUTPUTS, PRINTERS } from '../print/event_printers.ts';

const TABLE_LIMIT_DEFAULT = 100;

interface Options extends EventFilters, PlaceOptions {
  order: string;
  sort: 'time' | 'slowest';
  limit?: number;
  output: EventOutput;
}

export function createEventsCommand(): Command {
  const command = new Command('events').description('list recorded events');
  addPlaceOptions(addEventFilters(command))
    .addOption(new Option('--order <order>', 'order by time').choices(['asc', 'desc']).default('asc'))
    .addOption(
      new Option('--sort <order>', 'slowest: the longest events first').choices(['time', 'slowest']).default('time'),
    )
    .option(
      '--limit <count>',
      `maximum number of events (default: ${TABLE_LIMIT_DEFAULT} in a table and of the slowest, else all)`,
      positiveInteger,
    )
    .addOption(
      new Option('--output <format>', 'ndjson: one event per line; json: one document')
        .choices(OUTPUTS)
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    )
    .action((options: Options, self: Command) => {
      if (options.sort === 'slowest') checkSlowest(options, self);
      return runAtPlace(options, (url) => listEvents(url, options));
    });
  return addHelpEnd(command, {
    examples: [
      'kreplay events --transaction order-1',
      'kreplay events --service shop --type sys_sync --min-duration 10ms --from -15m',
      "kreplay events --file '/var/lib/pg/*' --exclude-comm walwriter --error EIO",
      'kreplay events --sort slowest --from -15m --limit 20',
      'kreplay events --recording incident.kreplay --failed --output ndjson',
    ],
  });
}

function checkSlowest({ limit = 0 }: Options, self: Command): void {
  if (self.getOptionValueSource('order') === 'cli') self.error('error: --sort slowest has an order of its own');
  if (limit >= LIMIT_MAX) self.error(`error: --sort slowest lists fewer than ${LIMIT_MAX} events`);
}

async function listEvents(url: string, options: Options): Promise<void> {
  const { output, sort, order } = options;
  const isCut = output === 'table' || sort === 'slowest';
  const limit = options.limit ?? (isCut ? TABLE_LIMIT_DEFAULT : Number.POSITIVE_INFINITY);
  const query = buildQuery({ ...filterParameters(options), ...(sort === 'time' ? { order } : { sort }) });
  // Requests one event more than the limit, to find out whether there are more. If the limit is too large for a
  // request, the request has no limit, and this command closes the stream.
  const asked = new URLSearchParams(limit < LIMIT_MAX ? [...query, ['limit', `${limit + 1}`]] : query);
  const res = await callDaemon(url, { path: `/api/events?${asked}`, accept: 'application/x-ndjson' });
  if (res.headers['kreplay-complete'] === 'false') await warnOfLosses(url, query);
  let more = false;
  await PRINTERS[output](
    selectFirstLines(readLines(res), limit, () => {
      more = true;
    }),
  );
  if (more && output === 'table') process.stderr.write(`kreplay: there are more than these ${limit}: see --limit\n`);
}

async function* selectFirstLines(
  lines: AsyncIterable<string>,
  limit: number,
  onMore: () => void,
): AsyncGenerator<string, void> {
  let count = 0;
  for await (const line of lines) {
    if (count === limit) return onMore();
    count++;
    yield line;
  }
}
