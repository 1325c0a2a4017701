/** Collects the options that a command takes for another process. */
import type { Command } from 'commander';

/** Adds options by `declare` and returns those that the command is given, as they were written; filled by parsing. */
export function forwardedOptions(command: Command, declare: (command: Command) => Command): readonly string[] {
  const own = new Set(command.options);
  declare(command);
  const given: string[] = [];
  for (const option of command.options.filter((one) => !own.has(one))) {
    // This event comes once for each of several values.
    command.on(`option:${option.name()}`, (value?: string | null) => {
      given.push(value == null ? option.long! : `${option.long}=${value}`);
    });
  }
  return given;
}
