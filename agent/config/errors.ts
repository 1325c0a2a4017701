import { UserError } from '../process/errors.ts';

/** A configuration that cannot be used: each line of the message says where, what and what instead. */
export class ConfigError extends UserError {
  override readonly name = 'ConfigError';
  /** Wrong usage; a service that ends with it is not to be started again. */
  override readonly exitCode = 2;
}
