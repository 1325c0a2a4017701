/** `kreplay diff`: compares two runs, or compares a run with its incident. */
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd, EXIT_CODES } from '../../../agent/config/help.ts';
import { stringify } from '../../base/exact_json.ts';
import { computeDifference, type Difference, type StreamChange } from '../../model/run_difference.ts';
import { listExceeded, parseReport } from '../../run/report/diff.ts';
import { formatShortDuration } from '../../run/report/summary.ts';
import { CommandError } from '../client/command_error.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

const EXCEEDED = 3;

interface Options {
  maxSlower?: number;
  sameCalls: boolean;
  output: 'table' | 'json';
}

export function createDiffCommand(): Command {
  const command = new Command('diff')
    .description('compare two runs, or a run with its incident: durations by path, new and vanished calls')
    .argument('<before>', 'report of a run, as kreplay run --report writes it; alone it is compared with its incident')
    .argument('[after]', 'report of another run')
    .option(
      '--max-slower <percent>',
      `exit with ${EXCEEDED} when all calls together take this much longer, such as 10%`,
      percent,
    )
    .option('--same-calls', `exit with ${EXCEEDED} when paths are new or have vanished`, false)
    .addOption(
      new Option('--output <format>', 'output format')
        .choices(['table', 'json'])
        .default(process.stdout.isTTY ? 'table' : 'json', 'table on a terminal, else json'),
    )
    .action(diff);
  return addHelpEnd(command, {
    examples: [
      'kreplay diff before.json after.json',
      'kreplay diff before.json after.json --max-slower 10% --same-calls',
      'kreplay diff before.json',
    ],
    exitCodes: { ...EXIT_CODES, [EXCEEDED]: 'the difference exceeds --max-slower or --same-calls' },
  });
}

function diff(first: string, second: string | undefined, options: Options): void {
  const [one, other] = [first, second].map((path) => (path === undefined ? undefined : read(path)));
  const found = other ? computeDifference(other, one) : computeDifference(one!);
  const limits = listExceeded(found, { maxSlower: options.maxSlower, sameCalls: options.sameCalls });
  process.stdout.write(
    options.output === 'json' ? `${stringify({ ...found, exceeded: limits })}\n` : formatDifference(found),
  );
  for (const limit of limits) process.stderr.write(`kreplay diff: ${limit}\n`);
  if (limits.length > 0) process.exitCode = EXCEEDED;
}

function read(path: string) {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new CommandError(`${path} cannot be read: ${(error as Error).message}`);
  }
  return parseReport(text, path);
}

function formatDifference(found: Difference): string {
  const formatTook = (ns: number | null) => (ns === null ? '?' : formatShortDuration(ns));
  const columns: TextColumn<StreamChange>[] = [
    { heading: 'CALLS', cell: ({ op_class, path }) => `${op_class} ${path}` },
    { heading: 'THREADS', cell: ({ role }) => role },
    { heading: 'BEFORE', cell: ({ calls }) => `${calls[0]}`, align: 'right' },
    { heading: 'AFTER', cell: ({ calls }) => `${calls[1]}`, align: 'right' },
    { heading: 'TOOK', cell: ({ took_ns }) => formatTook(took_ns[0]), align: 'right' },
    { heading: 'NOW', cell: ({ took_ns }) => formatTook(took_ns[1]), align: 'right' },
    { heading: '', cell: ({ change }) => (change === 'same' ? '' : change) },
  ];
  const { calls, took_ns, ended, first_divergence_ns: divergence } = found;
  const lines = [
    `${calls[0]} calls took ${formatShortDuration(took_ns[0])}, now ${calls[1]} take ${formatShortDuration(took_ns[1])}`,
  ];
  const [before, after] = ended;
  if (before && after)
    lines.push(
      `the command ended with ${before.code} after ${formatShortDuration(before.duration_ns)}, now with ${after.code} after ${formatShortDuration(after.duration_ns)}`,
    );
  lines.push(
    divergence === null
      ? 'no call was one too many'
      : `the first call too many was at ${formatShortDuration(divergence)}`,
  );
  return `${createTextTable(columns).lines(found.streams)}\n${lines.join('\n')}\n`;
}

function percent(value: string): number {
  const [, number] = /^(\d{1,6}(?:\.\d{1,3})?)%?$/.exec(value) ?? [];
  if (number === undefined) throw new InvalidArgumentError('must be a percentage, such as 10%');
  return Number(number) / 100;
}
