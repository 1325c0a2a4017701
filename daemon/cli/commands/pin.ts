/** `kreplay pin` and `kreplay unpin`: protect transactions from retention, and end this protection. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import { formatMilliseconds, parseDuration } from '../../base/duration.ts';
import { parseJson, stringify } from '../../base/exact_json.ts';
import { formatTime } from '../../base/time_text.ts';
import { BEFORE_NS_MAX } from '../../contract/pin_request.ts';
import type { ListedPin } from '../../contract/received.ts';
import { callDaemon, readJson, readText } from '../client/connection.ts';
import { createUrlOption } from '../options/option_values.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

interface Options {
  list: boolean;
  before?: bigint;
  url: string;
  output: 'text' | 'ndjson';
}

interface PinAnswer {
  /** Time from which events are kept; null if the recordings with this transaction are never subject to retention. */
  from: number | bigint | null;
  nodes: string[];
}

export function createPinCommand(): Command {
  const command = addUrlOption(new Command('pin'))
    .description('protect a transaction, and the events right before it, from retention')
    .argument('[transaction]', 'transaction id', parseTransactionId)
    .option(
      '--before <duration>',
      'how long before the transaction events are kept too, such as 0s, 1m30s (default: 10s)',
      parseBefore,
    )
    .addOption(new Option('--list', 'list all pins').default(false).conflicts('before'))
    .addOption(
      new Option('--output <format>', 'ndjson: one pin per line')
        .choices(['text', 'ndjson'])
        .default(process.stdout.isTTY ? 'text' : 'ndjson', 'text on a terminal, else ndjson'),
    )
    .action(async (id: string | undefined, options: Options, command: Command) => {
      if (options.list === (id !== undefined)) command.error('error: give a transaction to pin, or --list');
      process.stdout.write(id === undefined ? await listPins(options) : await pinTransaction(id, options));
    });
  return addHelpEnd(command, {
    examples: ['kreplay pin order-1', 'kreplay pin order-1 --before 1m30s', 'kreplay pin --list'],
  });
}

export function createUnpinCommand(): Command {
  const command = addUrlOption(new Command('unpin'))
    .description('stop protecting a transaction from retention')
    .argument('<transaction>', 'transaction id', parseTransactionId)
    .action(async (id: string, { url }: Pick<Options, 'url'>) => {
      await readText(await callDaemon(url, { method: 'DELETE', path: buildPinPath(id) }));
      process.stdout.write(`${escapeControls(id)} is no longer pinned\n`);
    });
  return addHelpEnd(command, { examples: ['kreplay unpin order-1'] });
}

function addUrlOption(command: Command): Command {
  return command.addOption(createUrlOption());
}

async function pinTransaction(id: string, { before: beforeNs, url, output }: Options): Promise<string> {
  const body = beforeNs === undefined ? {} : { before_ms: Number(formatMilliseconds(beforeNs)) };
  const text = await readText(await callDaemon(url, { method: 'POST', path: buildPinPath(id), body }));
  if (output === 'ndjson') return `${text}\n`;
  const { from, nodes } = parseJson(text) as PinAnswer;
  if (from === null)
    return `${escapeControls(id)} is only in imports and bundles: nothing is ever removed from those\n`;
  return `${escapeControls(id)} is pinned on ${escapeControls(nodes.join(', '))}: events from ${formatTime(BigInt(from))} on are kept\n`;
}

const COLUMNS: readonly TextColumn<ListedPin>[] = [
  { heading: 'TRANSACTION', cell: ({ transaction_id }) => transaction_id },
  { heading: 'NODE', cell: ({ node }) => node },
  { heading: 'KEPT FROM', cell: ({ from }) => formatTime(BigInt(from)) },
  { heading: 'PINNED AT', cell: ({ pinned_at }) => pinned_at },
];

async function listPins({ url, output }: Options): Promise<string> {
  const { pins } = (await readJson(await callDaemon(url, { path: '/api/pins' }))) as { pins: ListedPin[] };
  return output === 'text' ? createTextTable(COLUMNS).lines(pins) : pins.map((pin) => `${stringify(pin)}\n`).join('');
}

function buildPinPath(id: string): string {
  return `/api/transactions/${encodeURIComponent(id)}/pin`;
}

function parseTransactionId(value: string): string {
  if (value === '') throw new InvalidArgumentError('must not be empty');
  return value;
}

function parseBefore(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns <= BEFORE_NS_MAX) return ns;
  throw new InvalidArgumentError('must be a duration with its unit, such as 0s, 500ms or 1m30s, and at most 24h');
}
