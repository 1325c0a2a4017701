/** `kreplay run`: runs a test build with the latencies of an incident. */
import { type Command as BaseCommand, Command } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import { stringify } from '../../base/exact_json.ts';
import { openSource } from '../../export/source.ts';
import { EXIT, RunError, toRunError } from '../../run/errors.ts';
import { type OutputFile, openOutput } from '../../run/execution/output_files.ts';
import { repeatRun } from '../../run/execution/repeat.ts';
import { type Run, replayRun } from '../../run/execution/replay_run.ts';
import { addBlock } from '../../run/plan/from_blocks.ts';
import { addLine } from '../../run/plan/from_lines.ts';
import { createIncident, type Incident } from '../../run/plan/incident.ts';
import { createErrorCollector, type RecordedErrors } from '../../run/plan/recorded_errors.ts';
import { buildHtmlReport } from '../../run/report/html.ts';
import { buildJunitReport } from '../../run/report/junit.ts';
import { quoteForShell } from '../../run/report/map_option.ts';
import { type Attempt, formatOptionMs } from '../../run/report/result.ts';
import { appendStepSummary } from '../../run/report/step_summary.ts';
import { formatSummaryLines } from '../../run/report/summary.ts';
import { type Gates, MODES_OF_SUMS } from '../../run/report/verdict.ts';
import { callDaemon, readLines } from '../client/connection.ts';
import { warnOfLosses } from '../client/coverage_warning.ts';
import { AUTOMATIC_MAP, addRunOptions, type RunOptions } from '../options/run_options.ts';

const NOTES = `
A rule selects calls: sys_write or sys_sync, then parts between colons; * stands for any text:
  --inject sys_write:service=db:extra=10ms      fields service, comm, path, syscall
  --inject sys_write:path=/data/*.log:factor=3
  --fail sys_write:ENOSPC:nth=3                 the third one, in recorded order
  --short sys_write:path=*.log:nth=3            likewise
Where a recording has no syncs, block requests become them: block_io selects them as sys_sync does.

In a job of GitHub Actions ($GITHUB_STEP_SUMMARY) the run is added to the summary of the job.`;

const EXIT_CODES = {
  [EXIT.notReplayable]: 'the incident cannot be replayed here: the command was not run',
  [EXIT.gateNotMet]: 'the command did not fail, but --require, --max-duration or --expect-exit is not met',
  [EXIT.failed]: 'kreplay itself failed, or wrong usage',
  [EXIT.canNotRun]: 'the command cannot be run',
  [EXIT.notFound]: 'there is no such command',
  other: 'exit code of the command',
};

export function createRunCommand(): Command {
  const command = new Command('run')
    .description('run a test build so that each of its writes and syncs takes as long as in an incident')
    .usage('--bundle FILE --transaction ID [options] -- COMMAND [ARGUMENT ...]');
  addRunOptions(command).argument('<command...>', 'command to run, after --').action(runOrFail);
  return addHelpEnd(command, {
    notes: NOTES,
    examples: [
      'kreplay run --bundle incident.kreplay --transaction order-1 -- make test',
      'kreplay run --bundle incident.kreplay --transaction order-1 --require replayed --junit run.xml -- make test',
      'kreplay run --bundle incident.kreplay --transaction order-1 --map "$PWD/var=/srv/shop" -- make test',
      'kreplay run --bundle incident.kreplay --transaction order-1 --service shop -- ./test_shop',
      'kreplay run --transaction order-1 --repeat 10 --vary-latency 0..50ms -- ./test_orders',
    ],
    exitCodes: EXIT_CODES,
  });
}

/**
 * Runs the command; failures of kreplay itself get the exit codes that are reserved for them. All other exit codes are
 * those of the command.
 */
async function runOrFail(words: string[], options: RunOptions, command: BaseCommand): Promise<void> {
  try {
    await run(words, options, command);
  } catch (error) {
    throw toRunError(error);
  }
}

async function run(words: string[], options: RunOptions, command: BaseCommand): Promise<void> {
  // Without `--`, an option of the command could be parsed as an option of kreplay.
  if (process.argv.indexOf('--') !== process.argv.length - words.length - 1)
    command.error('error: put -- in front of the command: kreplay run --transaction ID -- COMMAND');
  if (options.varyLatency && options.repeat === undefined) command.error('error: --vary-latency needs a --repeat');
  if (MODES_OF_SUMS.includes(options.mode) && (options.fail || options.short || options.replayErrors))
    command.error(`error: in --mode ${options.mode} no call is a recorded one that could be made to fail`);
  if (options.mode === 'stall' && options.unknown === 'class')
    command.error('error: in --mode stall calls wait for those of their own file: leave --unknown class out');
  const outputs = openOutputs(options);
  try {
    const { incident, errors } = await readIncident(options);
    const settings = buildRunSettings(words, options);
    const createRun = (map: readonly string[]) => (seed: bigint, extraNs: number) =>
      replayRun({
        incident,
        errors,
        settings: { ...settings, map, seed, extra_latency_ns: extraNs },
        inject: (options.inject ?? []).map(({ rule }) => rule),
        fail: (options.fail ?? []).map(({ rule }) => rule),
        short: (options.short ?? []).map(({ rule }) => rule),
        gates: buildGates(options),
        ioUring: options.ioUring,
        showsLastLines: showsLastLines(options),
      });
    const done = await runMapped(createRun, options);
    tell(done);
    process.exitCode = done.exitCode;
    reportToGitHub(done);
    outputs.write(done);
  } finally {
    outputs.discard();
  }
}

/** Returns whether a report shows the last lines of the command's outputs. If so, the helper relays the outputs. */
function showsLastLines({ report, junit, html }: RunOptions): boolean {
  return [report, junit, html, process.env.GITHUB_STEP_SUMMARY].some(Boolean);
}

type StartRun = (seed: bigint, extraNs: number) => Promise<Run>;

/**
 * Runs the command. With `--map auto`, a first run shows which files the command writes; if maps for these files are
 * found, the command is run again with these maps.
 */
async function runMapped(createRun: (map: readonly string[]) => StartRun, options: RunOptions): Promise<Run> {
  const { map = [], seed, extraLatency } = options;
  const given = map.filter((each) => each !== AUTOMATIC_MAP);
  if (given.length === map.length) return runAsOften(createRun(given), options);
  const first = await createRun(given)(seed, extraLatency);
  const { maps, fits, options: proposed } = first.result.proposed_maps;
  if (first.wasSignalled || !first.result.ended) return first;
  if (!fits) return options.repeat === undefined ? first : runAsOften(createRun(given), options);
  const taken = proposed.map(escapeControls).join(' ');
  process.stderr.write(`kreplay run: --map auto is ${taken}: the command is run again with it\n`);
  const all = [...given, ...maps.map(({ here, there }) => `${here}=${there}`)];
  // The first matching map is used, so a map of a folder must come before a map of its parent folder.
  const getLength = (map: string) => map.indexOf('=');
  return runAsOften(createRun(all.toSorted((one, other) => getLength(other) - getLength(one))), options);
}

async function runAsOften(once: StartRun, options: RunOptions): Promise<Run> {
  const { repeat: times, seed, extraLatency: extraNs, varyLatency: range } = options;
  if (times === undefined) return once(seed, extraNs);
  const onAttempt = ({ seed, extra_latency_ns, code, verdict }: Attempt, number: number) => {
    const how = `--extra-latency ${formatOptionMs(extra_latency_ns)} --seed ${seed}`;
    process.stderr.write(
      `kreplay run: ${number + 1} of ${times}: ${how}: ${verdict}, ended with ${code ?? 'nothing'}\n`,
    );
  };
  const { run, repeated } = await repeatRun(once, { times, seed, extraNs, range, onAttempt });
  return { ...run, result: { ...run.result, repeated } };
}

function buildGates({ require, maxDuration, expectExit }: RunOptions): Gates {
  return {
    require: require === 'none' ? undefined : require,
    maxDurationNs: maxDuration,
    expectExit,
  };
}

function buildRunSettings(words: string[], options: RunOptions) {
  const { transaction, service = null, mode, seed, unknown, speed, extraLatency, threshold } = options;
  const { inject = [], fail = [], short = [], replayErrors: replay_errors } = options;
  return {
    transaction_id: transaction,
    service,
    command: words,
    mode,
    seed,
    unknown,
    speed,
    extra_latency_ns: extraLatency,
    threshold_ns: threshold,
    inject: inject.map(({ text }) => text),
    fail: fail.map(({ text }) => text),
    short: short.map(({ text }) => text),
    replay_errors,
  };
}

/** Prints the summary to standard error, because standard output belongs to the command. */
function tell({ result }: Run): void {
  for (const line of formatSummaryLines(result)) process.stderr.write(`kreplay run: ${line}\n`);
}

/** Appends the run to the job summary of GitHub Actions. If this fails, prints only a warning. */
function reportToGitHub({ result }: Run): void {
  const path = process.env.GITHUB_STEP_SUMMARY;
  if (!path) return;
  const problem = appendStepSummary(path, result);
  if (problem === undefined) return;
  process.stderr.write(
    `kreplay run: warning: no summary of the job in $GITHUB_STEP_SUMMARY: ${escapeControls(problem)}\n`,
  );
}

const FORMATS: readonly ['report' | 'junit' | 'html', (run: Run) => string][] = [
  ['report', ({ result }) => `${stringify(result)}\n`],
  ['junit', ({ result }) => buildJunitReport(result)],
  ['html', ({ result, plan, calls }) => buildHtmlReport(result, plan, calls)],
];

function openOutputs(options: RunOptions) {
  const opened: { file: OutputFile; formatRun: (run: Run) => string }[] = [];
  const discard = () => {
    for (const { file } of opened) file.discard();
  };
  try {
    for (const [name, formatRun] of FORMATS) {
      const path = options[name];
      if (path !== undefined) opened.push({ file: openOutput(path), formatRun });
    }
  } catch (error) {
    discard();
    throw error;
  }
  return {
    discard,
    /** Writes all files, and throws the first error at the end. */
    write(done: Run) {
      const errors: unknown[] = [];
      for (const { file, formatRun } of opened)
        try {
          file.write(formatRun(done));
        } catch (error) {
          errors.push(error);
        }
      if (errors.length > 0) throw errors[0];
    },
  };
}

/* Reads the incident of a run from a bundle or from a daemon. */

interface IncidentPlace {
  transaction: string;
  service?: string;
  bundle?: string;
  url: string;
}

interface ReadIncident {
  incident: Incident;
  errors: RecordedErrors;
}

async function readIncident(place: IncidentPlace): Promise<ReadIncident> {
  const { transaction, service, bundle } = place;
  const read = bundle === undefined ? await fetchIncident(place) : readIncidentFile(place, bundle);
  const { eventCount, services } = read.incident;
  if (eventCount > 0) return read;
  const where = bundle ?? place.url;
  if (services.length === 0) throw new RunError(`${where} has no events of transaction ${transaction}: check the id`);
  throw new RunError(
    `${where} has no events of service ${service} in transaction ${transaction}: its services are ${listNames(services)}`,
  );
}

const NAMES_MAX = 20;

function listNames(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_MAX).map((name) => (name === '' ? 'one without a name' : quoteForShell(name)));
  const more = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} more` : '';
  return `${shown.join(', ')}${more}`;
}

function readIncidentFile({ transaction, service }: IncidentPlace, bundle: string): ReadIncident {
  const source = openSource(bundle);
  try {
    const incident = createIncident(service);
    const errors = createErrorCollector(service);
    for (const block of source.scan({ transactionId: transaction })) {
      addBlock(incident, block);
      errors.addBlock(block);
    }
    return { incident: incident.finish(), errors };
  } finally {
    source.close();
  }
}

async function fetchIncident({ transaction, service, url }: IncidentPlace): Promise<ReadIncident> {
  const query = new URLSearchParams({ transaction_id: transaction, order: 'asc' });
  const res = await callDaemon(url, { path: `/api/events?${query}`, accept: 'application/x-ndjson' });
  if (res.headers['kreplay-complete'] === 'false') await warnOfLosses(url, query);
  const incident = createIncident(service);
  const errors = createErrorCollector(service);
  for await (const line of readLines(res)) {
    addLine(incident, line);
    errors.addLine(line);
  }
  return { incident: incident.finish(), errors };
}
