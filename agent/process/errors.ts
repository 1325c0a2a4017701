/**
 * An error whose message is all that a user needs: commands print it and exit. Other errors are bugs and keep their
 * stack.
 */
export class UserError extends Error {
  /** Exit code of the process. */
  readonly exitCode: number = 1;
}

/** An error that the operator can fix. It is reported in one line, with the remedy and without a stack. */
export class AgentError extends UserError {
  override readonly name = 'AgentError';
}

/**
 * Exit code if this host cannot be recorded; automake uses this code for a test that cannot run. A restart would end
 * the same way, so the service manager must not restart the agent (daemon/package/debian/kreplay-agent.service).
 */
export const HOST_UNFIT_EXIT_CODE = 77;

/** The error for a host that lacks something that recording needs. */
export class UnfitHostError extends AgentError {
  override readonly exitCode = HOST_UNFIT_EXIT_CODE;
  /** The message without the advice to run `kreplay doctor`, which prints this text itself. */
  readonly lack: string;

  /** `log` is the kernel's log about a refused program, which is appended on separate lines. */
  constructor(lack: string, log = '') {
    super(`${lack}; run \`kreplay doctor\`, which reports all that this host lacks${log}`);
    this.lack = `${lack}${log}`;
  }
}
