/** Errors whose message is all that a user needs: commands print it and end. Any other error is a bug and keeps its stack. */
export class UserError extends Error {
  /** What the process ends with. */
  readonly exitCode: number = 1;
}

/** The agent cannot start or go on. */
export class AgentError extends UserError {
  override readonly name = 'AgentError';
}
