/** A configuration that cannot be used: each line of the message names the place, the problem and the remedy. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** Wrong usage: a service that exits with this code must not be restarted. */
  readonly exitCode = 2;
}
