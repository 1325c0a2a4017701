/**
 * The options of `kreplay run`: the incident, how its latencies are assigned to calls, and the conditions under which
 * the run fails.
 */

import { type Command, InvalidArgumentError, Option } from 'commander';
import { escapeControls } from '../../../agent/output/printable.ts';
import { U64_MAX } from '../../base/bigints.ts';
import { parseDuration } from '../../base/duration.ts';
import { SPEED_FACTOR_MAX, SPEED_FACTOR_MIN } from '../../contract/replay_requests.ts';
import type { LatencyRange } from '../../run/execution/repeat.ts';
import { TARGET_NS_MAX } from '../../run/plan/compile.ts';
import { type FailRule, type InjectRule, parseFailRule, parseInjectRule } from '../../run/plan/rules.ts';
import { parseShortRule, type ShortRule } from '../../run/plan/short_rule.ts';
import type { Verdict } from '../../run/report/verdict.ts';
import { createUrlOption, positiveInteger } from './option_values.ts';

export interface RunOptions {
  transaction: string;
  service?: string;
  bundle?: string;
  url: string;
  speed: number;
  extraLatency: number;
  threshold: number;
  mode: string;
  unknown: string;
  map?: string[];
  inject?: Ruled<InjectRule>[];
  fail?: Ruled<FailRule>[];
  short?: Ruled<ShortRule>[];
  replayErrors: boolean;
  seed: bigint;
  repeat?: number;
  varyLatency?: LatencyRange;
  /** Minimum verdict that the run must reach; with `none`, no verdict makes the run fail. */
  require: Verdict | 'none';
  maxDuration?: number;
  expectExit?: number;
  ioUring: string;
  report?: string;
  junit?: string;
  html?: string;
}

interface Ruled<Rule> {
  text: string;
  rule: Rule;
}

const SEED_MAX = U64_MAX;

/** The value of `--map` that stands for the maps that are found by a first run. */
export const AUTOMATIC_MAP = 'auto';

export function addRunOptions(command: Command): Command {
  command
    .requiredOption('--transaction <id>', 'transaction of the incident')
    .option('--service <name>', 'replay and judge only the calls of this service of the incident')
    .addOption(
      new Option('--bundle <file>', 'recording that contains the incident, read without a daemon').conflicts('url'),
    )
    .addOption(createUrlOption())
    .option('--speed <factor>', 'speed factor: with 2 every call takes half as long', parseSpeedFactor, 1)
    .option('--extra-latency <duration>', 'latency to add to every call, such as 2ms', parseLatency, 0)
    .option('--threshold <duration>', 'hold only calls that are planned to take at least this long', parseLatency, 0)
    .option(
      '--map <here=there>',
      'path here, and its path in the recording; repeatable. With auto, a command that did not find its files is run ' +
        'again with the maps under which it does, unless they contradict each other',
      collectPathMaps,
    )
    .addOption(
      new Option(
        '--mode <mode>',
        'how calls get recorded durations: by size and order, by order, at random, or as long as others were under way',
      )
        .choices(['auto', 'align', 'ordinal', 'dist', 'stall'])
        .default('auto'),
    )
    .addOption(
      new Option('--seed <number>', 'seed of the random choices: the same seed gives the same durations')
        .argParser(seed)
        .default(1n, '1'),
    )
    .addOption(
      new Option(
        '--unknown <what>',
        'duration of calls to files that the incident does not contain, such as files with random names: unchanged, or ' +
          'as long as other calls of their class',
      )
        .choices(['none', 'class'])
        .default('none'),
    );
  return addRepetitionOptions(addGateOptions(addFaultOptions(command)))
    .addOption(
      new Option('--io-uring <how>', 'io_uring cannot be held: deny makes programs write without it')
        .choices(['deny', 'ignore'])
        .default('deny'),
    )
    .option('--report <file>', 'write a report in JSON')
    .option('--junit <file>', 'write a report in JUnit XML, for a CI')
    .option('--html <file>', 'write a report as an HTML page');
}

function addFaultOptions(command: Command): Command {
  return command
    .option('--inject <rule>', 'add latency to selected calls; repeatable', createRuleCollector(parseInjectRule))
    .option('--fail <rule>', 'return errors from selected calls; repeatable', createRuleCollector(parseFailRule))
    .option(
      '--short <rule>',
      'let selected writes to files write half of their bytes; repeatable',
      createRuleCollector(parseShortRule),
    )
    .option('--replay-errors', 'do not make calls that failed in the incident, but return its errors', false);
}

export function addRequireOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--require <verdict>',
      'fail unless the replay was at least this faithful: a machine that is too noisy never reaches replayed, and with ' +
        'none only the exit code of the command counts',
    )
      .choices(['replayed', 'partial', 'none'])
      .default('partial'),
  );
}

function addGateOptions(command: Command): Command {
  return addRequireOption(command)
    .option('--max-duration <duration>', 'fail when the command takes longer', parseLatency)
    .option('--expect-exit <code>', 'exit code that the command must end with; kreplay then exits with 0', exitCode);
}

function addRepetitionOptions(command: Command): Command {
  return command
    .option('--repeat <times>', 'run the command this many times, each time with the next seed', positiveInteger)
    .addOption(
      new Option(
        '--vary-latency <from..to>',
        'with --repeat: look for the smallest extra latency at which the command fails',
      )
        .argParser(parseLatencyRange)
        .conflicts('extraLatency'),
    );
}

function createRuleCollector<Rule>(parse: (text: string) => Rule) {
  return (text: string, before: Ruled<Rule>[] = []): Ruled<Rule>[] => {
    try {
      return [...before, { text, rule: parse(text) }];
    } catch (error) {
      throw new InvalidArgumentError(escapeControls((error as Error).message));
    }
  };
}

function parseLatency(value: string): number {
  const ns = parseDuration(value);
  if (ns !== undefined && ns <= TARGET_NS_MAX) return Number(ns);
  throw new InvalidArgumentError('must be a duration with its unit, such as 50us, 2ms or 1.5s, and at most 1h');
}

function parseLatencyRange(value: string): LatencyRange {
  const [, from, to] = /^(.+)\.\.(.+)$/.exec(value) ?? [];
  if (from === undefined || to === undefined) throw new InvalidArgumentError('must be FROM..TO, such as 0ms..5ms');
  const lowNs = parseLatency(from);
  const highNs = parseLatency(to);
  if (lowNs >= highNs) throw new InvalidArgumentError('must begin with the smaller duration');
  return { lowNs, highNs };
}

function parseSpeedFactor(value: string): number {
  const factor = /^\d+(\.\d+)?$/.test(value) ? Number(value) : Number.NaN;
  if (factor >= SPEED_FACTOR_MIN && factor <= SPEED_FACTOR_MAX) return factor;
  throw new InvalidArgumentError(`must be a number from ${SPEED_FACTOR_MIN} to ${SPEED_FACTOR_MAX}`);
}

function seed(value: string): bigint {
  const number = /^\d{1,20}$/.test(value) ? BigInt(value) : SEED_MAX + 1n;
  if (number <= SEED_MAX) return number;
  throw new InvalidArgumentError(`must be a whole number from 0 to ${SEED_MAX}`);
}

export function collectPathMaps(value: string, before: string[] = []): string[] {
  if (value === AUTOMATIC_MAP || /^[^=\0]+=[^\0]+$/.test(value)) return [...before, value];
  throw new InvalidArgumentError('must be HERE=THERE, two paths, or auto');
}

function exitCode(value: string): number {
  if (/^\d{1,3}$/.test(value) && Number(value) <= 255) return Number(value);
  throw new InvalidArgumentError('must be a number from 0 to 255');
}
