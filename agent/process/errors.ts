/** An error that the operator can fix: reported in one line, with what to do, and without a stack. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
}
