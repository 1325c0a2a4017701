/** How every client command ends: exit codes 0, 1 for a failure, 2 for wrong usage, and never a stack trace. */
import type { Command } from 'commander';
import { CommandError } from './connection.ts';

/** Commander gives 1 for wrong usage, which scripts could not tell from a failure. */
export function withUsageExitCode(command: Command): Command {
  return command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
}

/** Wraps an action: a failure that has a message for the user becomes one line on stderr. */
export function action<Arguments extends unknown[]>(
  work: (...given: Arguments) => Promise<void>,
): (...given: Arguments) => Promise<void> {
  return async (...given) => {
    // `| head` closes our output when it has enough: that is success.
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0);
      throw error;
    });
    try {
      await work(...given);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      process.stderr.write(`kreplay: ${error.message}\n`);
      process.exitCode = 1;
    }
  };
}
