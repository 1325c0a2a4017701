/** `kreplay tail`: events as they are recorded. */
import { Command, Option } from 'commander';
import { createParser } from 'eventsource-parser';
import { parseJson } from '../json.ts';
import { callDaemon, DEFAULT_URL } from './connection.ts';
import { type EventFilters, filterParameters, queryOf, withEventFilters } from './event_filters.ts';
import { PRINTERS } from './event_printers.ts';
import { daemonUrl, URL_HELP } from './option_values.ts';

interface Options extends EventFilters {
  url: string;
  output: 'table' | 'ndjson';
}

interface LostFrame {
  lost: number | bigint;
  cause: string;
  node: string;
}

export function tailCommand(): Command {
  const command = new Command('tail').description('follow events as they are recorded, until Ctrl-C');
  return withEventFilters(command, { to: false })
    .option('--url <url>', URL_HELP, daemonUrl, DEFAULT_URL)
    .addOption(
      new Option('--output <format>', 'ndjson is one event a line')
        .choices(['table', 'ndjson'])
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    )
    .action(follow);
}

async function follow(options: Options): Promise<void> {
  const path = `/api/events?${queryOf(filterParameters(options))}`;
  const res = await callDaemon(options.url, { path, accept: 'text/event-stream' });
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => res.destroy());
  res.setEncoding('utf8');
  // Each as it comes: a group that waits to be full would not be live.
  const print = PRINTERS[options.output];
  let waiting: string[] = [];
  const parser = createParser({
    onEvent({ event, data }) {
      if (event === 'event') waiting.push(data);
      else if (event === 'lost') warn(parseJson(data) as LostFrame);
    },
  });
  try {
    for await (const chunk of res) {
      parser.feed(chunk);
      const lines = waiting;
      waiting = [];
      await print(each(lines));
    }
  } catch (error) {
    // Ended by its user.
    if (!res.destroyed) throw error;
  }
}

async function* each(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

function warn({ lost, cause, node }: LostFrame): void {
  process.stderr.write(`kreplay: warning: ${lost} events of ${node} are missing: ${cause}\n`);
}
