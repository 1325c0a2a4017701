/** Exit codes of `kreplay run`, for scripts. In all other cases, `kreplay run` exits with the command's exit code. */
import { UserError } from '../../agent/process/errors.ts';
import { toUserError } from '../../agent/process/surroundings.ts';

export const EXIT = {
  /**
   * The incident has nothing to replay, or this machine cannot replay it, so the command was not run. This is neither a
   * pass nor a failure of the command.
   */
  notReplayable: 69,
  gateNotMet: 124,
  failed: 125,
  canNotRun: 126,
  notFound: 127,
} as const;

/** The error that ends a run. Its message is the one line that the user sees. */
export class RunError extends UserError {
  override readonly name = 'RunError';
  override readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Converts a UserError, or a system error that the user can cure (such as a full disk), to a RunError, so that `kreplay
 * run` exits with the code of a kreplay failure. Returns any other error unchanged.
 */
export function toRunError(error: unknown): unknown {
  const told = toUserError(error);
  return told instanceof UserError && !(told instanceof RunError) ? new RunError(told.message) : told;
}
