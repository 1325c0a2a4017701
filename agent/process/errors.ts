/**
 * An error whose message is all that a user needs: commands print it and exit. Other errors are bugs and keep their
 * stack.
 */
export class UserError extends Error {
  /** Exit code of the process. */
  readonly exitCode: number = 1;
}

/** An error that the operator can fix: reported in one line, with what to do, and without a stack. */
export class AgentError extends UserError {
  override readonly name = 'AgentError';
}

/**
 * Exit code that automake defines for a test that is impossible here: this host cannot be recorded. Another start would
 * end the same way, so the service manager must not try one (daemon/package/debian/kreplay-agent.service).
 */
export const HOST_UNFIT_EXIT_CODE = 77;

/** This host lacks something that recording needs. */
export class UnfitHostError extends AgentError {
  override readonly exitCode = HOST_UNFIT_EXIT_CODE;
  /** The message without the advice to run `kreplay doctor`, which prints this text itself. */
  readonly lack: string;

  /** `log` is what the kernel wrote about a program that it refused, as lines of its own. */
  constructor(lack: string, log = '') {
    super(`${lack}; run \`kreplay doctor\`, which reports all that this host lacks${log}`);
    this.lack = `${lack}${log}`;
  }
}
