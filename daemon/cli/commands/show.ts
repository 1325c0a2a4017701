/** `kreplay show`: shows how one transaction spent its time. */

import { Command, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { parseJson } from '../../base/exact_json.ts';
import type { ExplanationAnswer, ListedTransaction } from '../../contract/received.ts';
import { RefusedError } from '../client/command_error.ts';
import { callDaemon, readJson, readText } from '../client/connection.ts';
import { warnIfIncomplete } from '../client/coverage_warning.ts';
import { positiveInteger } from '../options/option_values.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { print } from '../print/standard_output.ts';
import {
  formatBursts,
  formatFileTable,
  formatHeadline,
  formatLaterWrites,
  formatNeighbourTable,
  formatSlowestTable,
} from '../print/transaction_report.ts';

const LIMIT_DEFAULT = 5;

interface Options extends PlaceOptions {
  limit: number;
  from?: string;
  to?: string;
  output: 'text' | 'json';
}

export function createShowCommand(): Command {
  const command = new Command('show')
    .summary('show why a transaction took its time, and who else used the disk')
    .description('show why a transaction took its time: the calls, what they waited for, and who else used the disk')
    .argument('<transaction>', 'transaction id')
    .option('--limit <count>', 'maximum number of calls and of files, up to 1000', positiveInteger, LIMIT_DEFAULT)
    .option('--from <time>', 'explain only events that began at or after this time')
    .option('--to <time>', 'explain only events that began before this time')
    .addOption(
      new Option('--output <format>', "json: the API's explanation")
        .choices(['text', 'json'])
        .default(process.stdout.isTTY ? 'text' : 'json', 'text on a terminal, else json'),
    );
  addPlaceOptions(command).action((transactionId: string, options: Options) =>
    runAtPlace(options, (url) => show(url, transactionId, options)),
  );
  return addHelpEnd(command, {
    examples: ['kreplay show order-1', 'kreplay show order-1 --recording incident.kreplay --limit 20'],
  });
}

async function show(url: string, transactionId: string, { limit, from, to, output }: Options): Promise<void> {
  const path = `/api/transactions/${encodeURIComponent(transactionId)}`;
  const query = new URLSearchParams({ limit: `${limit}`, ...(from && { from }), ...(to && { to }) });
  const explained = callDaemon(url, { path: `${path}/explain?${query}` }).then(readText);
  if (output === 'json') {
    const text = await explained;
    warnIfIncomplete((parseJson(text) as ExplanationAnswer).coverage);
    return print(`${text}\n`);
  }
  const explanation = await explained.then(
    (text) => parseJson(text) as ExplanationAnswer,
    (error: unknown) => {
      if (error instanceof RefusedError && error.code === 'too_many_events' && !from && !to) return undefined;
      throw error;
    },
  );
  const summary = (await readJson(
    await callDaemon(url, { path: `${path}/summary?limit=${limit}` }),
  )) as ListedTransaction;
  warnIfIncomplete(summary.coverage);
  await print(formatReport(summary, explanation, from !== undefined || to !== undefined));
}

function formatReport(
  summary: ListedTransaction,
  explanation: ExplanationAnswer | undefined,
  isOfRange: boolean,
): string {
  const headline = formatHeadline(summary, explanation, summary.coverage.complete);
  const isOfBurst = isOfRange && explanation !== undefined;
  const slowest = isOfBurst ? explanation : summary;
  const base = isOfBurst
    ? {
        first_timestamp_ns: explanation.bursts[0]?.from ?? summary.transaction.first_timestamp_ns,
        duration_ns: explanation.duration_ns,
      }
    : summary.transaction;
  const neighbours = explanation && formatNeighbourTable(explanation);
  return [
    isOfRange && explanation ? explanation.sentence : headline,
    `The slowest calls:\n${formatSlowestTable(slowest, base)}`,
    !isOfRange && `The time by file:\n${formatFileTable(summary)}`,
    neighbours && `Others on its devices meanwhile:\n${neighbours}`,
    !isOfRange && formatLaterWrites(summary),
    explanation && formatBursts(explanation),
  ]
    .filter((part) => typeof part === 'string')
    .map((part) => part.trimEnd())
    .join('\n\n')
    .concat('\n');
}
