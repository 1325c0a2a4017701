/** Runs work that a signal can interrupt. An interrupted release leaves nothing unfinished. */
import { constants } from 'node:os';
import { ReleaseError } from './programs.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: (typeof SIGNALS)[number]) {
    super(`ended by ${signal}`);
    this.exitCode = 128 + constants.signals[signal];
  }
}

/** Runs `work`; if it fails or is interrupted, prints the error and sets the exit code of this process. */
export async function runInterruptibly(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController();
  for (const name of SIGNALS) process.on(name, () => controller.abort(new Interrupted(name)));
  try {
    await work(controller.signal);
  } catch (thrown) {
    // On Ctrl-C, the terminal also interrupts the program that is running. Its failure must not hide the signal, which
    // is the real reason.
    const error = controller.signal.aborted ? controller.signal.reason : thrown;
    process.exitCode = error instanceof Interrupted ? error.exitCode : 1;
    process.stderr.write(
      `make release: ${explain(error)}\nmake release: no release was made; an earlier one is as it was\n`,
    );
  } finally {
    for (const name of SIGNALS) process.removeAllListeners(name);
  }
}

function explain(error: unknown): string {
  if (error instanceof ReleaseError || error instanceof Interrupted) return error.message;
  const { code, message, stack } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return `there is no space left: free some, and run make release again (${message})`;
  // System errors have the path in their message. Any other error is a bug, so its stack is shown.
  return code === undefined ? String(stack) : message;
}
