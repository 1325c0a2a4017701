/** Entry point: one binary, whose commands are in `daemon/cli/program.ts`. */
import { isReadByJournal } from './agent/output/journal.ts';
import { escapeControls } from './agent/output/printable.ts';
import { UserError } from './agent/process/errors.ts';
import { toUserError } from './agent/process/surroundings.ts';
import { loadProgram } from './daemon/cli/program.ts';

/** Other exit codes of `run` are its command's. */
const RUN_FAILED = 125;

/** Exit code for wrong usage. */
const chooseUsageExitCode = (name: string) => (name === 'run' ? RUN_FAILED : 2);

async function main(args: readonly string[]): Promise<void> {
  const [name = ''] = args;
  // `| head` closes standard output when it has enough, which is success. A command that must clean up listens to the
  // signal.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // EIO comes from a terminal that hung up.
    if (error.code === 'EPIPE' || error.code === 'EIO') {
      if (!process.emit('SIGPIPE', 'SIGPIPE')) process.exit(0);
      return;
    }
    tell(`standard output: ${error.message}`);
    process.exit(1);
  });
  // Where nothing can be said, the command still does its work, and its exit code says how that went.
  process.stderr.on('error', () => {});
  try {
    const program = await loadProgram(name, ({ exitCode }) =>
      process.exit(exitCode === 0 ? 0 : chooseUsageExitCode(name)),
    );
    await program.parseAsync(args, { from: 'user' });
  } catch (thrown) {
    const error = toUserError(thrown);
    if (!(error instanceof UserError)) {
      // A defect keeps its stack, and Node's exit code for it could be the command's.
      if (name === 'run') process.once('exit', () => (process.exitCode = RUN_FAILED));
      throw error;
    }
    tell(error.message);
    // A command that was ended early does not wait for a reader of its output.
    if (error.name === 'Interrupted') process.exit(1);
    process.exitCode = error.exitCode;
  }
}

/** The priority of an error in the journal: `journalctl -p warning` shows why a service did not start. */
const ERROR_PRIORITY = '<3>';

/** Messages quote files, which anyone may have written. */
function tell(message: string): void {
  const priority = isReadByJournal(process.stderr) ? ERROR_PRIORITY : '';
  const lines = `kreplay: ${message}`.split('\n').map((line) => `${priority}${escapeControls(line)}\n`);
  process.stderr.write(lines.join(''));
}

if (import.meta.main) await main(process.argv.slice(2));
