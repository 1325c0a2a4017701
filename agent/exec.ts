/**
 * `kreplay exec`: runs a command under a label.
 *
 * This part checks the labels and prints the marker line; the launcher (agent/launcher.sh) writes it to /dev/null and
 * becomes the command. Not Node: it sets every signal's disposition at start, ignores SIGPIPE, and what it becomes
 * would inherit that.
 */
import { Command } from 'commander';
import { z } from 'zod';
import { formatMarker } from './attribution/marker.ts';
import { AgentError } from './errors.ts';

const idSchema = z.string().min(1, 'must not be empty');

const labelsSchema = z.object({
  transaction: idSchema.optional(),
  trace: z
    .string()
    .toLowerCase()
    .regex(/^[0-9a-f]{32}$/, 'must be 32 hex digits')
    .refine((id) => !/^0+$/.test(id), 'must not be all zero')
    .optional(),
  service: idSchema.optional(),
});

export function execCommand(): Command {
  return new Command('exec')
    .description('run a command so that its events, and those of all its children, carry a label')
    .usage('--transaction ID [--trace HEX] [--service NAME] -- COMMAND [ARGUMENT ...]')
    .option('--transaction <id>', 'transaction that the command carries out')
    .option('--trace <hex>', 'W3C trace id, 32 hex digits')
    .option('--service <name>', "service that the events belong to (believed of root and of the agent's user)")
    .argument('<command...>', 'what to run, behind --')
    .addHelpText('after', '\nExit code: that of the command; 2 for wrong usage, 126 or 127 when it can not be run.')
    .action(printMarker);
}

function printMarker(command: readonly string[], flags: Record<string, string>): void {
  const labels = labelsSchema.safeParse(flags);
  if (!labels.success) {
    const [issue] = labels.error.issues;
    throw new AgentError(`--${issue!.path.join('.')} ${issue!.message}`);
  }
  const { transaction, trace, service } = labels.data;
  if (!transaction && !trace && !service) throw new AgentError('give --transaction, --trace or --service');
  // The launcher finds the command behind the first `--`, so there has to be one.
  if (process.argv.indexOf('--') !== process.argv.length - command.length - 1) {
    throw new AgentError('put -- in front of the command: kreplay exec --transaction ID -- COMMAND');
  }
  process.stdout.write(formatMarker({ transactionId: transaction, traceId: trace, service }));
}
