/** Options that determine how a transaction is laid out on its own time line, for `replay` and `whatif`. */
import { type Command, InvalidArgumentError } from 'commander';
import { parseDuration } from '../../../agent/config/duration.ts';
import { EXTRA_LATENCY_NS_MAX } from '../../replay/contract.ts';

export interface ProjectionOptions {
  extraLatency?: bigint;
  timeout?: bigint;
  clockOffset?: Readonly<Record<string, bigint>>;
}

export function withProjection(command: Command, latencyHelp: string, timeoutHelp: string): Command {
  return command
    .option('--extra-latency <duration>', `${latencyHelp}, such as 50us, 2ms, 1.5s`, extraLatency)
    .option('--timeout <duration>', timeoutHelp, timeout)
    .option(
      '--clock-offset <node=duration>',
      'time to add to the clock of a node, so that all clocks agree: node=+1.5ms; repeatable, once per node',
      clockOffset,
    );
}

/** Converts the options to the fields of a request. */
export function projectionOf({ extraLatency, timeout, clockOffset }: ProjectionOptions) {
  return {
    ...(extraLatency !== undefined && { extra_latency_ns: extraLatency }),
    ...(timeout !== undefined && { timeout_ns: timeout }),
    ...(clockOffset && { clock_offsets_ns: clockOffset }),
  };
}

function extraLatency(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns <= EXTRA_LATENCY_NS_MAX) return ns;
  throw new InvalidArgumentError('must be a duration with its unit, such as 50us, 2ms or 1.5s, and at most 1h');
}

function timeout(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns > 0n) return ns;
  throw new InvalidArgumentError('must be a duration above 0 with its unit, such as 250ms or 1.5s');
}

function clockOffset(value: string, before: ProjectionOptions['clockOffset'] = {}): Record<string, bigint> {
  const [, node, sign, size = ''] = /^(.+)=([+-]?)(.+)$/.exec(value) ?? [];
  const ns = parseDuration(size);
  if (node === undefined || ns === undefined)
    throw new InvalidArgumentError('must be a node and what is added to its times, such as node=+1.5ms or node=-20us');
  return { ...before, [node]: sign === '-' ? -ns : ns };
}
