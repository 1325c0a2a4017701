import { UserError } from '../process/errors.ts';

/** A configuration that cannot be used: each line of the message names the place, the problem and the remedy. */
export class ConfigError extends UserError {
  override readonly name = 'ConfigError';
  /** Wrong usage: a service that exits with this code must not be restarted. */
  override readonly exitCode = 2;
}
