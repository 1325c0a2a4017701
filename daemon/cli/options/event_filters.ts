/** Options that select events. All commands that query events share these options. */
import { type Command, Option } from 'commander';
import { EVENT_TYPES } from '../../../bpf/schema/index.ts';
import { collectLists, parseDurationMs, positiveInteger, timeText } from './option_values.ts';
import { addValueFilters, buildValueParameters, type Parameters, type ValueFilters } from './value_filters.ts';

export interface EventFilters extends ValueFilters {
  transaction?: string;
  trace?: string;
  queuedBy?: string[];
  service?: string[];
  node?: string[];
  type?: string[];
  from?: string;
  to?: string;
  minDuration?: string;
  maxDuration?: string;
  pid?: number;
  comm?: string[];
  failed?: true;
}

/** Adds the options. `to` is false for a live tail, which has no end and therefore no `--to`. */
export function addEventFilters(command: Command, { to = true } = {}): Command {
  command
    .option('--transaction <id>', 'events of one transaction')
    .option('--trace <id>', 'W3C trace id, 32 hex digits')
    .option('--queued-by <ids>', 'only requests that these transactions queued', collectLists)
    .option('--service <names>', 'only events of these services; comma-separated or repeated', collectLists)
    .option('--node <names>', 'only events of these hosts; likewise a list', collectLists)
    .option('--type <types>', `only events of these types: ${EVENT_TYPES.join(', ')}; likewise a list`, collectLists)
    .option('--from <time>', 'start of the window, included: 2026-11-20T10:00:00Z, nanoseconds, or -15m', timeText);
  if (to) command.addOption(new Option('--to <time>', 'end of the window, not included').argParser(timeText));
  command
    .option('--min-duration <duration>', 'minimum duration, such as 50us, 2ms, 1.5s', parseDurationMs)
    .option('--max-duration <duration>', 'maximum duration, likewise', parseDurationMs)
    .option('--pid <pid>', 'process id', positiveInteger)
    .option('--comm <names>', 'only events of threads with these command names; likewise a list', collectLists)
    .option('--failed', 'only events that failed');
  return addValueFilters(command, 'events');
}

export function filterParameters(filters: EventFilters): Parameters {
  return {
    transaction_id: filters.transaction,
    trace_id: filters.trace,
    queued_by: filters.queuedBy,
    service: filters.service,
    node: filters.node,
    event_type: filters.type,
    from: filters.from,
    to: filters.to,
    min_duration_ms: filters.minDuration,
    max_duration_ms: filters.maxDuration,
    pid: filters.pid?.toString(),
    comm: filters.comm,
    failed: filters.failed && 'true',
    ...buildValueParameters(filters),
  };
}

/** Builds a query string without undefined parameters. */
export function buildQuery(parameters: Parameters): URLSearchParams {
  return new URLSearchParams(
    Object.entries(parameters).flatMap(([name, values = []]) =>
      [values].flat().map((value): [string, string] => [name, value]),
    ),
  );
}
