import { UserError } from '../../../agent/process/errors.ts';

/** Ends a command; the message is the one line that the user sees. */
export class CommandError extends UserError {
  override readonly name = 'CommandError';
  override readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The daemon was reached and said no. */
export class RefusedError extends CommandError {
  /** One of the API's; undefined when what answered is no kreplay daemon. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}
