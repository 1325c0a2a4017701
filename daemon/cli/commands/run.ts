/** `kreplay run`: runs a test build with the latencies of an incident. */
import { type Command as BaseCommand, Command, InvalidArgumentError, Option } from 'commander';
import { parseDuration } from '../../../agent/config/duration.ts';
import { withHelpEnd } from '../../../agent/config/help.ts';
import { printable } from '../../../agent/output/printable.ts';
import { stringify } from '../../exact_json.ts';
import { SPEED_FACTOR_MAX, SPEED_FACTOR_MIN } from '../../replay/contract.ts';
import { EXIT } from '../../run/errors.ts';
import { type OutputFile, openOutput } from '../../run/execution/output_files.ts';
import { type LatencyRange, repeatRun } from '../../run/execution/repeat.ts';
import { type Run, replayRun } from '../../run/execution/replay_run.ts';
import { TARGET_NS_MAX } from '../../run/plan/compile.ts';
import { type FailRule, type InjectRule, parseFailRule, parseInjectRule } from '../../run/plan/rules.ts';
import { parseShortRule, type ShortRule } from '../../run/plan/short_rule.ts';
import { htmlOf } from '../../run/report/html.ts';
import { junitOf } from '../../run/report/junit.ts';
import { type Attempt, milliseconds } from '../../run/report/result.ts';
import { summaryLines } from '../../run/report/summary.ts';
import { MODES_OF_SUMS, type Verdict } from '../../run/report/verdict.ts';
import { positiveInteger, urlOption } from '../options/option_values.ts';
import { readIncident } from './run_incident.ts';

interface Options {
  transaction: string;
  bundle?: string;
  url: string;
  speed: number;
  extraLatency: number;
  timeoutScale: number;
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
  require?: Verdict;
  maxDuration?: number;
  expectExit?: number;
  ioUring: string;
  onDeath: string;
  report?: string;
  junit?: string;
  html?: string;
}

interface Ruled<Rule> {
  text: string;
  rule: Rule;
}

const SEED_MAX = 2n ** 64n - 1n;

const NOTES = `
A rule selects calls: sys_write or sys_sync, then parts between colons; * stands for any text:
  --inject sys_write:service=db:extra=10ms      fields service, comm, path, syscall
  --inject sys_write:path=/data/*.log:factor=3
  --fail sys_write:ENOSPC:nth=3                 the third one, in recorded order
  --short sys_write:path=*.log:nth=3            likewise
Where a recording has no syncs, block requests become them: block_io selects them as sys_sync does.`;

const EXIT_CODES = {
  [EXIT.notReplayable]: 'the incident cannot be replayed here: the command was not run',
  [EXIT.gateNotMet]: 'the command did not fail, but --require, --max-duration or --expect-exit is not met',
  [EXIT.failed]: 'kreplay itself failed, or wrong usage',
  [EXIT.canNotRun]: 'the command cannot be run',
  [EXIT.notFound]: 'there is no such command',
  other: 'exit code of the command',
};

export function runCommand(): Command {
  const command = new Command('run')
    .description('run a test build so that each of its writes and syncs takes as long as in an incident')
    .usage('--bundle FILE --transaction ID [options] -- COMMAND [ARGUMENT ...]')
    .requiredOption('--transaction <id>', 'transaction of the incident')
    .addOption(
      new Option('--bundle <file>', 'recording that contains the incident, read without a daemon').conflicts('url'),
    )
    .addOption(urlOption())
    .option('--speed <factor>', 'speed factor: with 2 every call takes half as long', speedFactor, 1)
    .option('--extra-latency <duration>', 'latency to add to every call, such as 2ms', latency, 0)
    .option('--threshold <duration>', 'hold only calls that are planned to take at least this long', latency, 0)
    .option(
      '--timeout-scale <factor>',
      'factor for the timeouts of the command, which gets it as KREPLAY_TIMEOUT_SCALE',
      scale,
      1,
    )
    .option('--map <here=there>', 'path here, and its path in the recording; repeatable', pathMap)
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
  withRepetition(withGates(withFaults(command)))
    .addOption(
      new Option('--io-uring <how>', 'io_uring cannot be held: deny makes programs write without it')
        .choices(['deny', 'ignore'])
        .default('deny'),
    )
    .addOption(
      new Option('--on-death <how>', 'what happens to the command when the runner dies')
        .choices(['kill', 'pass'])
        .default('kill'),
    )
    .option('--report <file>', 'write a report in JSON')
    .option('--junit <file>', 'write a report in JUnit XML, for a CI')
    .option('--html <file>', 'write a report as an HTML page')
    .argument('<command...>', 'command to run, after --')
    .action(run);
  return withHelpEnd(command, {
    notes: NOTES,
    examples: [
      'kreplay run --bundle incident.kreplay --transaction order-1 -- make test',
      'kreplay run --bundle incident.kreplay --transaction order-1 --require replayed --junit run.xml -- make test',
      'kreplay run --transaction order-1 --repeat 10 --vary-latency 0..50ms -- ./test_orders',
    ],
    exitCodes: EXIT_CODES,
  });
}

function withFaults(command: Command): Command {
  return command
    .option('--inject <rule>', 'add latency to selected calls; repeatable', ruled(parseInjectRule))
    .option('--fail <rule>', 'return errors from selected calls; repeatable', ruled(parseFailRule))
    .option(
      '--short <rule>',
      'let selected writes to files write half of their bytes; repeatable',
      ruled(parseShortRule),
    )
    .option('--replay-errors', 'do not make calls that failed in the incident, but return its errors', false);
}

function withGates(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--require <verdict>',
        'fail unless the replay was at least this faithful; a machine that is too noisy never reaches replayed',
      ).choices(['replayed', 'partial']),
    )
    .option('--max-duration <duration>', 'fail when the command takes longer', latency)
    .option('--expect-exit <code>', 'exit code that the command must end with; kreplay then exits with 0', exitCode);
}

function withRepetition(command: Command): Command {
  return command
    .option('--repeat <times>', 'run the command this many times, each time with the next seed', positiveInteger)
    .addOption(
      new Option(
        '--vary-latency <from..to>',
        'with --repeat: look for the smallest extra latency at which the command fails',
      )
        .argParser(latencyRange)
        .conflicts('extraLatency'),
    );
}

async function run(words: string[], options: Options, command: BaseCommand): Promise<void> {
  // A word of the command must not be parsed as an option of kreplay.
  if (process.argv.indexOf('--') !== process.argv.length - words.length - 1)
    command.error('error: put -- in front of the command: kreplay run --transaction ID -- COMMAND');
  if (options.varyLatency && options.repeat === undefined) command.error('error: --vary-latency needs a --repeat');
  if (MODES_OF_SUMS.includes(options.mode) && (options.fail || options.short || options.replayErrors))
    command.error(`error: in --mode ${options.mode} no call is a recorded one that could be made to fail`);
  if (options.mode === 'stall' && options.unknown === 'class')
    command.error('error: in --mode stall calls wait for those of their own file: leave --unknown class out');
  if (options.short && options.onDeath === 'pass')
    command.error('error: --short needs --on-death kill: a write that was made short could be made once more');
  const outputs = openOutputs(options);
  try {
    const { incident, errors } = await readIncident(options);
    const settings = settingsOf(words, options);
    const once = (seed: bigint, extraNs: number) =>
      replayRun({
        incident,
        errors,
        settings: { ...settings, seed, extra_latency_ns: extraNs },
        inject: (options.inject ?? []).map(({ rule }) => rule),
        fail: (options.fail ?? []).map(({ rule }) => rule),
        short: (options.short ?? []).map(({ rule }) => rule),
        gates: { require: options.require, maxDurationNs: options.maxDuration, expectExit: options.expectExit },
        ioUring: options.ioUring,
        onDeath: options.onDeath,
        environment: { ...process.env, KREPLAY_TIMEOUT_SCALE: `${options.timeoutScale}` },
      });
    const done = await runAsOften(once, options);
    tell(done);
    process.exitCode = done.exitCode;
    outputs.write(done);
  } finally {
    outputs.discard();
  }
}

async function runAsOften(once: (seed: bigint, extraNs: number) => Promise<Run>, options: Options): Promise<Run> {
  const { repeat: times, seed, extraLatency: extraNs, varyLatency: range } = options;
  if (times === undefined) return once(seed, extraNs);
  const onAttempt = ({ seed, extra_latency_ns, code, verdict }: Attempt, number: number) => {
    const how = `--extra-latency ${milliseconds(extra_latency_ns)} --seed ${seed}`;
    process.stderr.write(
      `kreplay run: ${number + 1} of ${times}: ${how}: ${verdict}, ended with ${code ?? 'nothing'}\n`,
    );
  };
  const { run, repeated } = await repeatRun(once, { times, seed, extraNs, range, onAttempt });
  return { ...run, result: { ...run.result, repeated } };
}

function settingsOf(words: string[], options: Options) {
  const { transaction, mode, seed, unknown, speed, timeoutScale, extraLatency, threshold } = options;
  const { inject = [], fail = [], short = [], map = [], replayErrors: replay_errors } = options;
  return {
    ...{ transaction_id: transaction, command: words, mode, seed, unknown, speed, map },
    ...{ timeout_scale: timeoutScale, extra_latency_ns: extraLatency, threshold_ns: threshold },
    inject: inject.map(({ text }) => text),
    fail: fail.map(({ text }) => text),
    short: short.map(({ text }) => text),
    replay_errors,
  };
}

/** Prints to standard error, because standard output belongs to the command. */
function tell({ result }: Run): void {
  for (const line of summaryLines(result)) process.stderr.write(`kreplay run: ${line}\n`);
}

const FORMATS: readonly ['report' | 'junit' | 'html', (run: Run) => string][] = [
  ['report', ({ result }) => `${stringify(result)}\n`],
  ['junit', ({ result }) => junitOf(result)],
  ['html', ({ result, plan, calls }) => htmlOf(result, plan, calls)],
];

function openOutputs(options: Options) {
  const opened: { file: OutputFile; textOf: (run: Run) => string }[] = [];
  const discard = () => {
    for (const { file } of opened) file.discard();
  };
  try {
    for (const [name, textOf] of FORMATS) {
      const path = options[name];
      if (path !== undefined) opened.push({ file: openOutput(path), textOf });
    }
  } catch (error) {
    discard();
    throw error;
  }
  return {
    discard,
    write(done: Run) {
      for (const { file, textOf } of opened) file.write(textOf(done));
    },
  };
}

function ruled<Rule>(parse: (text: string) => Rule) {
  return (text: string, before: Ruled<Rule>[] = []): Ruled<Rule>[] => {
    try {
      return [...before, { text, rule: parse(text) }];
    } catch (error) {
      throw new InvalidArgumentError(printable((error as Error).message));
    }
  };
}

function latency(value: string): number {
  const ns = parseDuration(value);
  if (ns !== undefined && ns <= TARGET_NS_MAX) return Number(ns);
  throw new InvalidArgumentError('must be a duration with its unit, such as 50us, 2ms or 1.5s, and at most 1h');
}

function latencyRange(value: string): LatencyRange {
  const [, from, to] = /^(.+)\.\.(.+)$/.exec(value) ?? [];
  if (from === undefined || to === undefined) throw new InvalidArgumentError('must be FROM..TO, such as 0ms..5ms');
  const [lowNs, highNs] = [latency(from), latency(to)];
  if (lowNs >= highNs) throw new InvalidArgumentError('must begin with the smaller duration');
  return { lowNs, highNs };
}

function speedFactor(value: string): number {
  return factorIn(value, SPEED_FACTOR_MIN, SPEED_FACTOR_MAX);
}

function scale(value: string): number {
  return factorIn(value, 0.001, 1000);
}

function factorIn(value: string, least: number, most: number): number {
  const factor = /^\d+(\.\d+)?$/.test(value) ? Number(value) : Number.NaN;
  if (factor >= least && factor <= most) return factor;
  throw new InvalidArgumentError(`must be a number from ${least} to ${most}`);
}

function seed(value: string): bigint {
  const number = /^\d{1,20}$/.test(value) ? BigInt(value) : SEED_MAX + 1n;
  if (number <= SEED_MAX) return number;
  throw new InvalidArgumentError(`must be a whole number from 0 to ${SEED_MAX}`);
}

function pathMap(value: string, before: string[] = []): string[] {
  if (/^[^=\0]+=[^\0]+$/.test(value)) return [...before, value];
  throw new InvalidArgumentError('must be HERE=THERE, two paths');
}

function exitCode(value: string): number {
  if (/^\d{1,3}$/.test(value) && Number(value) <= 255) return Number(value);
  throw new InvalidArgumentError('must be a number from 0 to 255');
}
