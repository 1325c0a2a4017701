/**
 * Exit codes of `kreplay run`, for scripts. If none of them applies, `kreplay run` ends with the command's exit code.
 */
import { UserError } from '../../agent/process/errors.ts';
import { toUserError } from '../../agent/process/surroundings.ts';

export const EXIT = {
  /** The incident is not replayable here. This is never a pass, and never the command's fault. */
  notReplayable: 69,
  gateNotMet: 124,
  failed: 125,
  canNotRun: 126,
  notFound: 127,
} as const;

/** Thrown to end a run; the message is the one line that the user sees. */
export class RunError extends UserError {
  override readonly name = 'RunError';
  override readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Converts an error that the user can cure to a RunError, which has the exit code of a kreplay failure; returns any
 * other error unchanged.
 */
export function toRunError(error: unknown): unknown {
  const told = toUserError(error);
  return told instanceof UserError && !(told instanceof RunError) ? new RunError(told.message) : told;
}
