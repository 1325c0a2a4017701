/** `kreplay show`: shows how one transaction spent its time. */

import { Command, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { parseJson } from '../../base/exact_json.ts';
import type { Coverage, ListedTransaction } from '../../contract/received.ts';
import { callDaemon, readText } from '../client/connection.ts';
import { warnIfIncomplete } from '../client/coverage_warning.ts';
import { positiveInteger } from '../options/option_values.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { print } from '../print/standard_output.ts';
import {
  describeSlowSpot,
  formatFileTable,
  formatHeadline,
  formatLaterWrites,
  formatSlowestTable,
} from '../print/transaction_report.ts';

const LIMIT_DEFAULT = 5;

interface Options extends PlaceOptions {
  limit: number;
  output: 'text' | 'json';
}

export function createShowCommand(): Command {
  const command = new Command('show')
    .description('show where the time of a transaction went: its slowest calls, and its time by file')
    .argument('<transaction>', 'transaction id')
    .option('--limit <count>', 'maximum number of calls and of files, up to 1000', positiveInteger, LIMIT_DEFAULT)
    .addOption(
      new Option('--output <format>', 'json: the answer of the API')
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

async function show(url: string, transactionId: string, { limit, output }: Options): Promise<void> {
  const path = `/api/transactions/${encodeURIComponent(transactionId)}/summary?limit=${limit}`;
  const text = await readText(await callDaemon(url, { path }));
  const summary = parseJson(text) as ListedTransaction & { coverage: Coverage };
  warnIfIncomplete(summary.coverage);
  await print(output === 'json' ? `${text}\n` : formatSummary(summary, summary.coverage.complete));
}

function formatSummary(summary: ListedTransaction, isComplete: boolean): string {
  const later = formatLaterWrites(summary);
  return `${formatHeadline(summary, isComplete)}

The slowest calls:
${formatSlowestTable(summary)}
The time by file:
${formatFileTable(summary)}
${describeSlowSpot(summary)}
${later === undefined ? '' : `${later}\n`}`;
}
