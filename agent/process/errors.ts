/** Something the operator can put right: said in one line, with what to do, and no stack. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
}
