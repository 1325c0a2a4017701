/** The options that `replay` and `whatif` share: extra latency, the caller's timeout, and clock offsets of nodes. */
import { type Command, InvalidArgumentError } from 'commander';
import { parseDuration } from '../../base/duration.ts';
import { EXTRA_LATENCY_NS_MAX } from '../../contract/replay_requests.ts';

type ClockOffset = typeof MEASURED | Readonly<Record<string, bigint>>;

/** The value of `--clock-offset` that selects the clock offset that a fleet has measured for each node. */
const MEASURED = 'measured';

export interface ProjectionOptions {
  extraLatency?: bigint;
  timeout?: bigint;
  clockOffset?: ClockOffset;
}

export function addProjectionOptions(command: Command, latencyHelp: string, timeoutHelp: string): Command {
  return command
    .option('--extra-latency <duration>', `${latencyHelp}, such as 50us, 2ms, 1.5s`, parseExtraLatency)
    .option('--timeout <duration>', timeoutHelp, parseTimeout)
    .option(
      '--clock-offset <node=duration>',
      'time to add to the clock of a node, so that all clocks agree: node=+1.5ms; repeatable, once per node; measured: as a fleet knows them',
      collectClockOffset,
    );
}

/** Converts the options to the fields of an API request. */
export function buildProjection({ extraLatency, timeout, clockOffset }: ProjectionOptions) {
  return {
    ...(extraLatency !== undefined && { extra_latency_ns: extraLatency }),
    ...(timeout !== undefined && { timeout_ns: timeout }),
    ...(clockOffset && { clock_offsets_ns: clockOffset }),
  };
}

function parseExtraLatency(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns <= EXTRA_LATENCY_NS_MAX) return ns;
  throw new InvalidArgumentError('must be a duration with its unit, such as 50us, 2ms or 1.5s, and at most 1h');
}

function parseTimeout(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns > 0n) return ns;
  throw new InvalidArgumentError('must be a duration above 0 with its unit, such as 250ms or 1.5s');
}

function collectClockOffset(value: string, before?: ClockOffset): ClockOffset {
  if (value === MEASURED && before === undefined) return MEASURED;
  const [, node, sign, size = ''] = /^(.+)=([+-]?)(.+)$/.exec(value) ?? [];
  const ns = parseDuration(size);
  if (node === undefined || ns === undefined || before === MEASURED)
    throw new InvalidArgumentError(
      'must be a node and what is added to its times, such as node=+1.5ms or node=-20us, or measured alone',
    );
  return { ...before, [node]: sign === '-' ? -ns : ns };
}
