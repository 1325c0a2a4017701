/** `kreplay whatif`: computes the effect of extra latency on a transaction, without a replay. */

import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd, EXIT_CODES } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import { formatMilliseconds } from '../../base/duration.ts';
import { parseJson } from '../../base/exact_json.ts';
import { parseListItems } from '../../base/list_text.ts';
import type { ExactInteger, LateEvent, ReceivedNodeClock, WhatIfAnswer } from '../../contract/received.ts';
import { callDaemon, readText } from '../client/connection.ts';
import { warnIfIncomplete } from '../client/coverage_warning.ts';
import { parseWholeNumber } from '../options/option_values.ts';
import { addPlaceOptions, type PlaceOptions, runAtPlace } from '../options/place.ts';
import { addProjectionOptions, buildProjection, type ProjectionOptions } from '../options/projection_options.ts';
import { formatDuration } from '../print/display.ts';
import { describeEvent } from '../print/event_table.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

const LIMIT_DEFAULT = 20;
const TIMES_OUT = 3;
const ONLY_FIELDS = ['event_type', 'service', 'node'] as const;

type OnlyOption = Partial<Record<(typeof ONLY_FIELDS)[number], string[]>>;

interface Options extends ProjectionOptions, PlaceOptions {
  only?: OnlyOption;
  limit: number;
  failIfTimeout?: true;
  output: 'table' | 'json';
}

export function createWhatIfCommand(): Command {
  const command = new Command('whatif')
    .description('compute what extra latency would do to a transaction, without playing it')
    .argument('<transaction>', 'transaction id');
  addPlaceOptions(
    addProjectionOptions(
      command,
      'latency to add to every call, or to what --only selects',
      'deadline of a caller: report the events that end after it',
    ),
  )
    .option(
      '--only <field=value,...>',
      `add the latency only to these events, of which those of the type block_io lengthen the call that waits for them; fields ${ONLY_FIELDS.join(', ')}`,
      collectOnly,
    )
    .option('--limit <count>', 'maximum number of late events to show', parseWholeNumber, LIMIT_DEFAULT)
    .option('--fail-if-timeout', `exit with ${TIMES_OUT} when an event is too late`)
    .addOption(
      new Option('--output <format>', 'json: the answer of the API')
        .choices(['table', 'json'])
        .default(process.stdout.isTTY ? 'table' : 'json', 'table on a terminal, else json'),
    )
    .action((transactionId: string, options: Options, self: Command) => {
      if (options.failIfTimeout && options.timeout === undefined)
        self.error('error: --fail-if-timeout needs a --timeout');
      return runAtPlace(options, (url) => project(url, transactionId, options));
    });
  return addHelpEnd(command, {
    notes: '--only event_type=sys_write,service=db,service=shop: the writes of either service.',
    examples: [
      'kreplay whatif order-1 --extra-latency 2ms --timeout 250ms',
      'kreplay whatif order-1 --extra-latency 2ms --only event_type=sys_sync,service=shop',
      'kreplay whatif order-1 --timeout 250ms --fail-if-timeout --recording incident.kreplay',
    ],
    exitCodes: {
      ...EXIT_CODES,
      [TIMES_OUT]: 'with --fail-if-timeout: an event would end after the timeout, or a call in progress may',
    },
  });
}

async function project(url: string, transactionId: string, options: Options): Promise<void> {
  const { only, limit, output } = options;
  const body = { transaction_id: transactionId, ...buildProjection(options), ...(only && { only }), limit };
  const text = await readText(await callDaemon(url, { method: 'POST', path: '/api/replay/whatif', body }));
  const answer = parseJson(text) as WhatIfAnswer;
  warnIfIncomplete(answer.coverage);
  process.stdout.write(output === 'json' ? `${text}\n` : formatWhatIf(answer));
  // If it is unknown whether a deadline was missed, it counts as missed.
  if (options.failIfTimeout && (answer.times_out || answer.in_progress_times_out !== false))
    process.exitCode = TIMES_OUT;
}

const formatNs = (value: ExactInteger) => formatDuration(BigInt(value));
/** Formats milliseconds with all digits, because users may copy the text into an option. */
const formatExact = (value: ExactInteger) => `${formatMilliseconds(BigInt(value))}ms`;

function formatWhatIf(answer: WhatIfAnswer): string {
  const { transaction_id, event_count, affected_count, extra_latency_ns, duration_ns, replay_duration_ns } = answer;
  const added = BigInt(replay_duration_ns) - BigInt(duration_ns);
  const lines = [
    `${escapeControls(transaction_id)}: ${formatExact(extra_latency_ns)} more for ${affected_count} of ${event_count} events`,
    `recorded ${formatNs(duration_ns)}, projected ${formatNs(replay_duration_ns)}: ${formatNs(added)} longer`,
  ];
  lines.push(...answer.clock.filter(({ source }) => source === 'measured').map(formatClockLine));
  if (answer.written_back_count > 0)
    lines.push(`${answer.written_back_count} of the events write its data back to disk: no caller waited for them`);
  if (answer.timeout_ns === null) return `${lines.join('\n')}\n`;
  return `${[...lines, ...formatTimeoutLines(answer, BigInt(answer.timeout_ns))].join('\n')}\n${formatLateTable(answer)}`;
}

function formatClockLine({ node, offset_ns, uncertainty_ns }: ReceivedNodeClock): string {
  const sign = BigInt(offset_ns) < 0n ? '' : '+';
  return `clock of ${escapeControls(node)}: ${sign}${formatNs(offset_ns)}, measured within ${formatNs(uncertainty_ns!)}`;
}

function formatTimeoutLines(answer: WhatIfAnswer, timeoutNs: bigint): string[] {
  const { after_timeout_count: count, smallest_latency_ns: smallest, in_progress_times_out, coverage } = answer;
  const events = count === 1 ? '1 event ends' : `${count} events end`;
  const kept = coverage.complete ? 'kept' : 'kept by what is recorded, which is not all';
  const unended =
    in_progress_times_out === null
      ? 'not known, a call in progress may not have ended by then'
      : in_progress_times_out
        ? 'not kept, a call in progress has not ended by then'
        : kept;
  const outcome = count === 0 ? unended : `not kept, ${events} after it`;
  return [
    `timeout ${formatNs(timeoutNs)}: ${outcome}`,
    `smallest extra latency that times out: ${formatSmallestLatency(smallest)}`,
  ];
}

function formatSmallestLatency(smallest: ExactInteger | null): string {
  if (smallest === null) return 'none, no latency delays an event';
  return BigInt(smallest) === 0n ? '0ms, it did so when it was recorded' : formatExact(smallest);
}

function formatLateTable({ after_timeout: late, after_timeout_count: count, timeout_ns }: WhatIfAnswer): string {
  if (count === 0) return '';
  const formatPast = (event: LateEvent) =>
    formatNs(BigInt(event.replay_offset_ns) + BigInt(event.replay_duration_ns) - BigInt(timeout_ns!));
  const columns: TextColumn<LateEvent>[] = [
    { heading: 'OFFSET', cell: (event) => `+${formatNs(event.replay_offset_ns)}`, align: 'right' },
    { heading: 'DURATION', cell: (event) => formatNs(event.replay_duration_ns), align: 'right' },
    { heading: 'TOO LATE BY', cell: formatPast, align: 'right' },
    { heading: 'TYPE', cell: (event) => event.event_type },
    { heading: 'WHAT', cell: describeEvent },
    { heading: 'THREAD', cell: ({ tid, comm, node }) => `${tid} ${comm} ${node}` },
  ];
  const rest = count - late.length;
  const more = rest > 0 ? `and ${rest} more; --limit shows more of them\n` : '';
  return `\n${late.length > 0 ? createTextTable(columns).lines(late) : ''}${more}`;
}

function collectOnly(value: string, before: OnlyOption = {}): OnlyOption {
  const wanted = { ...before };
  for (const pair of parseListItems(value)) {
    const [, name, text] = /^([^=]+)=(.+)$/s.exec(pair) ?? [];
    const field = ONLY_FIELDS.find((known) => known === name);
    if (!field || text === undefined)
      throw new InvalidArgumentError(`must be FIELD=VALUE, comma-separated; the fields are ${ONLY_FIELDS.join(', ')}`);
    wanted[field] = [...(wanted[field] ?? []), text];
  }
  return wanted;
}
