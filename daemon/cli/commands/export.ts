/** `kreplay export`: writes events of a recording to a file for other people or other tools. */
import { join, parse } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { EVENT_TYPES, type EventType } from '../../../bpf/schema/index.ts';
import { stringify } from '../../base/exact_json.ts';
import type { TimeExpression } from '../../base/time.ts';
import { nowNs } from '../../base/wall_clock.ts';
import { ExportError } from '../../export/errors.ts';
import { FORMATS, type Format, type FormatName } from '../../export/formats/format.ts';
import { type ExportSummary, exportEvents, STANDARD_OUTPUT } from '../../export/incident/export.ts';
import { createTerminalProgress } from '../../export/incident/progress.ts';
import { buildSelection } from '../../export/incident/selection.ts';
import { collectNames, collectWords, duration, time } from '../options/option_values.ts';
import { addRecordingOptions, type RecordingOptions, runWithSource } from '../options/recording_options.ts';

interface Options extends RecordingOptions {
  transaction?: string;
  context?: bigint;
  from?: TimeExpression;
  to?: TimeExpression;
  service?: string[];
  eventType?: EventType[];
  format: FormatName;
  output?: string;
  force: boolean;
  redact: boolean;
  summary: 'text' | 'json';
  fleet: boolean;
}

export function createExportCommand(): Command {
  const command = new Command('export')
    .description('write recorded events to a file: a bundle, which kreplay opens like any recording, or another format')
    .option('--transaction <id>', 'events of one transaction')
    .option(
      '--context <duration>',
      'with --transaction: include all events from this long before it to this long after it',
      duration,
    )
    .option('--from <time>', 'start of a window, included: 2026-11-20T10:00:00Z, nanoseconds, or -15m', time)
    .option('--to <time>', 'end of the window, not included', time)
    .option('--service <names>', 'only events of these services; comma-separated or repeated', collectNames)
    .option(
      '--type, --event-type <types>',
      `only events of these types: ${EVENT_TYPES.join(', ')}; likewise a list`,
      collectEventTypes,
    );
  addRecordingOptions(command)
    .option('--fleet', 'with --transaction: of the fleet that [daemon] names, a file for each node', false)
    .addOption(new Option('--format <format>', 'output format').choices(Object.keys(FORMATS)).default('bundle'))
    .option('--output <path>', `path of the output; - is standard output (default: ${listDefaultOutputs()})`)
    .option('--force', 'replace an existing file', false)
    .option('--redact', 'replace names, paths and ids with pseudonyms; numbers and times stay', false)
    .addOption(new Option('--summary <format>', 'format of the summary').choices(['text', 'json']).default('text'))
    .action(runExport);
  return addHelpEnd(command, {
    examples: [
      'kreplay export --transaction order-1',
      'kreplay export --transaction order-1 --context 2s --redact --output incident.kreplay',
      'kreplay export --from -15m --service shop --format csv',
      'kreplay export --transaction order-1 --fleet',
    ],
  });
}

function listDefaultOutputs(): string {
  return Object.entries(FORMATS)
    .filter(([, { defaultOutput }]) => defaultOutput !== STANDARD_OUTPUT)
    .map(([, { defaultOutput }]) => defaultOutput)
    .join(', ');
}

function collectEventTypes(value: string, before: string[] = []): string[] {
  const types = collectWords(value, before);
  const unknown = types.find((type) => !(EVENT_TYPES as readonly string[]).includes(type));
  if (unknown !== undefined) throw new InvalidArgumentError(`known are: ${EVENT_TYPES.join(', ')}`);
  return types;
}

async function runExport(options: Options, command: Command): Promise<void> {
  const { format: name, transaction } = options;
  const format: Format = FORMATS[name];
  const output = options.output ?? format.defaultOutput;
  refuseMeaningless(options, output, format, command);
  if (!options.fleet) return exportOne(options, format, output);
  // Imported on demand, because only this form of export needs the ClickHouse client.
  const [{ readConfiguredFleet }, { runWithFleetCopies }] = await Promise.all([
    import('../../server/options.ts'),
    import('../../replay/fleet_copies/exported.ts'),
  ]);
  await runWithFleetCopies(readConfiguredFleet(), transaction!, async (copies) => {
    for (const { path, node } of copies) {
      // A node has several copies if its agent began a new recording during the transaction.
      const isAlone = copies.filter((other) => other.node === node).length === 1;
      const part = isAlone ? node : `${node}-${parse(path).name}`;
      await exportOne({ ...options, recording: path }, format, copies.length > 1 ? namePartFile(output, part) : output);
    }
  });
}

/** Inserts the name of a part in front of the file name's extension. */
function namePartFile(output: string, part: string): string {
  const { dir, name, ext } = parse(output);
  return join(dir, `${name}-${part.replaceAll(/[^\w.-]/g, '_')}${ext}`);
}

async function exportOne(options: Options, format: Format, output: string): Promise<void> {
  const { transaction, context, from, to, force, redact } = options;
  const progress = createTerminalProgress(process.stderr, () => performance.now());
  const summary = await runWithSource(options, (source) =>
    exportEvents({
      source,
      selection: buildSelection(
        source,
        {
          transactionId: transaction,
          contextNs: context ?? 0n,
          from,
          to,
          services: options.service,
          eventTypes: options.eventType,
        },
        nowNs(),
      ),
      format,
      output,
      force,
      redact,
      signal: createEndingSignal(),
      onProgress: ({ events, bytes }) => progress.tell(() => `${events} events, ${formatMegabytes(bytes)}`),
    }),
  ).finally(progress.clear);
  const stream = output === STANDARD_OUTPUT ? process.stderr : process.stdout;
  stream.write(
    options.summary === 'json' ? formatJsonSummary(options, output, summary) : formatTextSummary(output, summary),
  );
}

/** Rejects contradictory options before a recording is opened. */
function refuseMeaningless(options: Options, output: string, format: Format, command: Command): void {
  const { transaction, from, to, context } = options;
  const windowed = from !== undefined || to !== undefined;
  if (transaction === undefined && !windowed) command.error('error: give --transaction, or --from and --to');
  if (transaction !== undefined && windowed) command.error('error: --transaction has its own window: give --context');
  if (context !== undefined && transaction === undefined) command.error('error: --context belongs to --transaction');
  if (options.fleet && (transaction === undefined || context !== undefined || options.recording !== undefined))
    command.error('error: --fleet needs --transaction, and goes without --context and --recording');
  if (options.fleet && output === STANDARD_OUTPUT) command.error('error: --fleet writes files: give --output a path');
  if (output !== STANDARD_OUTPUT) return;
  if (format.kind === 'file') command.error(`error: --format ${options.format} is a file: give --output a path`);
  if (format.binary && process.stdout.isTTY)
    throw new ExportError('this format is not for a terminal: give --output a path, or a pipe');
}

/** Returns a signal that SIGINT and SIGTERM abort, so that the export can remove its incomplete file. */
function createEndingSignal(): AbortSignal {
  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => ending.abort());
  return ending.signal;
}

function formatMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function formatTextSummary(output: string, { events, bytes, lost, gaps }: ExportSummary): string {
  const target = output === STANDARD_OUTPUT ? '' : ` to ${output}`;
  const count = lost === 0 ? 'an unknown number of' : lost;
  const missing = gaps === 0 ? '' : `; the recording is missing ${count} events in this window`;
  return `kreplay export: ${events} events, ${bytes} bytes${target}${missing}\n`;
}

function formatJsonSummary({ format, redact: redacted }: Options, output: string, summary: ExportSummary): string {
  return `${stringify({ format, output, redacted, ...summary })}\n`;
}
