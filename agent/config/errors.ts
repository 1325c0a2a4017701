import { UserError } from '../process/errors.ts';

/** An error in the configuration. Each line of the message names the place, the problem and the remedy. */
export class ConfigError extends UserError {
  override readonly name = 'ConfigError';
  /** The code of wrong usage: a service that exits with this code must not be restarted. */
  override readonly exitCode = 2;
}
