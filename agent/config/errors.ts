/** A configuration that cannot be used: each line of the message says where, what and what instead. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** Wrong usage; a service that ends with it is not to be started again. */
  readonly exitCode = 2;
}
