/**
 * `kreplay exec`: runs a command under a label.
 *
 * This file checks the labels and prints the marker line. The launcher (agent/launcher.sh) writes the line to /dev/null
 * and executes the command in its own process. Node could not do that: it changes signal dispositions at start, such as
 * ignoring SIGPIPE, and the command would inherit them.
 */
import { Command, InvalidArgumentError } from 'commander';
import { formatMarker, isTraceId } from './attribution/marker.ts';
import { addHelpEnd } from './config/help.ts';

export function createExecCommand(): Command {
  const command = new Command('exec')
    .description('run a command with a label, which its events and those of all its children carry')
    .usage('--transaction ID [--trace HEX] [--service NAME] -- COMMAND [ARGUMENT ...]')
    .option('--transaction <id>', 'transaction to attribute the events to', parseNonEmpty)
    .option('--trace <hex>', 'W3C trace id, 32 hex digits', parseTraceId)
    .option(
      '--service <name>',
      "service to attribute the events to (accepted from root and from the agent's user)",
      parseNonEmpty,
    )
    .argument('<command...>', 'command to run, after --')
    .action(printMarker);
  return addHelpEnd(command, {
    examples: [
      'kreplay exec --transaction order-1 -- ./place_order',
      'kreplay exec --transaction nightly-backup --service backup -- tar -cf /backup/home.tar /home',
    ],
    exitCodes: {
      2: 'wrong usage',
      126: 'the command cannot be run',
      127: 'there is no such command',
      other: 'exit code of the command',
    },
  });
}

function parseNonEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('It must not be empty.');
  return value;
}

function parseTraceId(value: string): string {
  const id = value.toLowerCase();
  if (!isTraceId(id)) throw new InvalidArgumentError('It must be 32 hex digits, not all zero.');
  return id;
}

interface ExecFlags {
  transaction?: string;
  trace?: string;
  service?: string;
}

function printMarker(words: readonly string[], { transaction, trace, service }: ExecFlags, command: Command): void {
  if (!transaction && !trace && !service) command.error('error: give --transaction, --trace or --service');
  // The launcher finds the command after the first `--`, so `--` is required.
  if (process.argv.indexOf('--') !== process.argv.length - words.length - 1) {
    command.error('error: put -- in front of the command: kreplay exec --transaction ID -- COMMAND');
  }
  try {
    process.stdout.write(formatMarker({ transactionId: transaction, traceId: trace, service }));
  } catch (error) {
    command.error(`error: ${(error as Error).message}`);
  }
}
