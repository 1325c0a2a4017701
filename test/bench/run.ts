/**
 * `node test/bench/run.ts [names] [--events N] [--seconds N]`: measures kreplay against its peers. Numbers go to
 * build/bench/NAME.json.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { Argument, Command, InvalidArgumentError } from 'commander';
import { type Bench, type BenchContext, BenchError, type BenchResult, type Sizes } from './bench.ts';
import { allowedCpus, type Disturbance, disturbance, machine } from './machine.ts';
import { progressLine, tableText } from './table.ts';

const ENDING = '.bench.ts';
const BUILD_FOLDER = join(import.meta.dirname, '../../build/bench');
const USAGE_ERROR = 2;
const INTERRUPTED = 130;

async function main(): Promise<void> {
  const names = readdirSync(import.meta.dirname)
    .filter((file) => file.endsWith(ENDING))
    .map((file) => file.slice(0, -ENDING.length));
  const benches = new Map<string, Bench>();
  for (const name of names.sort()) benches.set(name, await import(`./${name}${ENDING}`));

  await new Command('bench')
    .description('measure kreplay beside its peers, as root')
    .addArgument(new Argument('[names...]', 'what to measure (default: all)').choices(names))
    .option(
      '--events <count>',
      'events of a made-up recording (recording_store, recording_large, run_cost, web_page)',
      positive,
    )
    .option(
      '--seconds <count>',
      'length of a live load (recording_capture), or of the replays that may drift (replay_accuracy)',
      positive,
    )
    .addHelpText('after', `\n${tableText([...benches].map(([name, { summary }]) => [name, summary]))}`)
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : USAGE_ERROR))
    .action(async (asked: string[], sizes: Sizes) => {
      await measureAll(new Map((asked.length > 0 ? asked : names).map((name) => [name, benches.get(name)!])), sizes);
    })
    .parseAsync();
}

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError('It must be a whole number above 0.');
  return value;
}

async function measureAll(benches: ReadonlyMap<string, Bench>, sizes: Sizes): Promise<void> {
  if (process.getuid?.() !== 0) throw new BenchError('tracing takes root: run `sudo make bench`');
  const ending = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => ending.abort());
  const loadCpu = leaveOneCpu();
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-bench-'));
  mkdirSync(BUILD_FOLDER, { recursive: true });
  const progress = progressLine(process.stdout);
  try {
    for (const [name, bench] of benches) {
      const { signal } = ending;
      const context: BenchContext = { signal, folder, buildFolder: BUILD_FOLDER, loadCpu, sizes, progress };
      const before = disturbance();
      const result = await bench.run(context).finally(() => progress(''));
      report(name, bench, result, { before, after: disturbance() });
    }
  } catch (error) {
    if (!ending.signal.aborted) throw error;
    process.exitCode = INTERRUPTED;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Takes this process, and so everything that it starts, off one CPU, which is left to the load. */
function leaveOneCpu(): number {
  const cpus = allowedCpus();
  const loadCpu = cpus.pop()!;
  if (cpus.length === 0) throw new BenchError('a load and what traces it take two CPUs; this machine has one');
  execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cpus.join(','), String(process.pid)]);
  return loadCpu;
}

function report(
  name: string,
  { summary, unit }: Bench,
  { table, details, ...result }: BenchResult,
  disturbances: { before: Disturbance; after: Disturbance },
): void {
  const file = join(BUILD_FOLDER, `${name}.json`);
  const machineFacts = { ...machine(), ...disturbances };
  writeFileSync(file, `${JSON.stringify({ name, unit, ...result, machine: machineFacts, ...details }, null, 2)}\n`);

  const print = (line: string) => process.stdout.write(`${line}\n`);
  const { kernel, cpu, cpus, before, after } = machineFacts;
  print(`${name}: ${summary}\n\n${tableText(table)}`);
  for (const { text, measured, met } of result.targets) print(`  ${met ? 'met   ' : 'MISSED'}  ${text}: ${measured}`);
  print(`  Linux ${kernel}, ${cpus} x ${cpu}, load average before ${before.load_average.toFixed(1)}`);
  if (before.tracing_programs + after.tracing_programs > 0) {
    print('  Not to be trusted: other programs were tracing this host, and every number includes what they add.');
  }
  print(`  ${relative(process.cwd(), file)}\n`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof BenchError)) throw error;
  process.stderr.write(`bench: ${error.message}\n`);
  process.exitCode = 1;
}
