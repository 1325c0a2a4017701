/**
 * An error whose message is all that a user needs: commands print it and exit. Other errors are bugs and keep their
 * stack.
 */
export class UserError extends Error {
  /** Exit code of the process. */
  readonly exitCode: number = 1;
}

/**
 * Exit code of wrong usage and of a wrong configuration. A restart would end the same way, so the service manager must
 * not restart a service that exits with this code (RestartPreventExitStatus= in daemon/package/debian).
 */
export const WRONG_CONFIGURATION_EXIT_CODE = 2;

/**
 * An error in the configuration, or in a file that the configuration names: nothing works until somebody changes it.
 * Each line of the message names the place, the problem and the remedy. What may change by itself, such as a port that
 * is taken, is another error.
 */
export class ConfigError extends UserError {
  override readonly name = 'ConfigError';
  override readonly exitCode = WRONG_CONFIGURATION_EXIT_CODE;
}

/** An error that the operator can fix. It is reported in one line, with the remedy and without a stack. */
export class AgentError extends UserError {
  override readonly name = 'AgentError';
}

/**
 * Exit code if this host cannot be recorded; automake uses this code for a test that cannot run. A restart would end
 * the same way, so the service manager must not restart the agent either.
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
