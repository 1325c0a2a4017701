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
