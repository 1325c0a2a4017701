/** Ends a command with exit code 1; the message is the one line that the user sees. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}
