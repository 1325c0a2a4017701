/** `kreplay tail`: follows events as they are recorded. */
import { Command, Option } from 'commander';
import { createParser } from 'eventsource-parser';
import { addHelpEnd, EXIT_CODES } from '../../../agent/config/help.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { parseJson } from '../../base/exact_json.ts';
import { CommandError } from '../client/command_error.ts';
import { callDaemon } from '../client/connection.ts';
import { addEventFilters, buildQuery, type EventFilters, filterParameters } from '../options/event_filters.ts';
import { createUrlOption } from '../options/option_values.ts';
import { EVENT_COLUMNS } from '../print/event_table.ts';
import { print } from '../print/standard_output.ts';
import { createTextTable } from '../print/table.ts';

interface Options extends EventFilters {
  url: string;
  output: 'table' | 'ndjson';
}

interface ExactLostFrame {
  lost: number | bigint;
  cause: string;
  node: string;
}

export function createTailCommand(): Command {
  const command = new Command('tail').description('follow events as they are recorded');
  addEventFilters(command, { to: false })
    .addOption(createUrlOption())
    .addOption(
      new Option('--output <format>', 'ndjson: one event per line')
        .choices(['table', 'ndjson'])
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    )
    .action(follow);
  return addHelpEnd(command, {
    examples: [
      'kreplay tail',
      'kreplay tail --service shop --failed',
      'kreplay tail --min-duration 10ms --output ndjson',
    ],
    exitCodes: {
      ...EXIT_CODES,
      0: 'ended by Ctrl-C or SIGTERM',
      1: 'the daemon refused the request, ended or is unreachable',
    },
  });
}

async function follow(options: Options): Promise<void> {
  const path = `/api/events?${buildQuery(filterParameters(options))}`;
  const res = await callDaemon(options.url, { path, accept: 'text/event-stream' });
  let isEnded = false;
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => {
      isEnded = true;
      res.destroy();
    });
  }
  res.setEncoding('utf8');
  const table = createTextTable(EVENT_COLUMNS);
  const formatEvents = (lines: readonly string[]) =>
    options.output === 'table'
      ? table.lines(lines.map((line) => parseJson(line) as ApiEvent))
      : lines.map((line) => `${line}\n`).join('');
  let waiting: string[] = [];
  const parser = createParser({
    onEvent({ event, data }) {
      if (event === 'event') waiting.push(data);
      else if (event === 'lost') warn(parseJson(data) as ExactLostFrame);
    },
  });
  try {
    for await (const chunk of res) {
      parser.feed(chunk);
      const lines = waiting;
      waiting = [];
      if (lines.length > 0) await print(formatEvents(lines));
    }
  } catch (error) {
    if (!isEnded) throw new CommandError(`the daemon's answer broke off: ${(error as Error).message}`);
  }
  if (!isEnded) throw new CommandError('the daemon has ended; events go on being recorded without it');
}

function warn({ lost, cause, node }: ExactLostFrame): void {
  process.stderr.write(`kreplay: warning: ${lost} events of ${node} are missing: ${cause}\n`);
}
