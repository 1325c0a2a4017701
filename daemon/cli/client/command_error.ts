import { UserError } from '../../../agent/process/errors.ts';

/** The error that ends a command. Its message is the one line that the user sees. */
export class CommandError extends UserError {
  override readonly name = 'CommandError';
  override readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The error for a request that the daemon received but refused. */
export class RefusedError extends CommandError {
  /** Error code of the API; undefined if the server is not a kreplay daemon. */
  readonly code: string | undefined;

  constructor(message: string, code?: string) {
    super(message);
    this.code = code;
  }
}
