/** Options that a command takes for another process. */
import type { Command } from 'commander';

/** What the command is given of the options that `declare` adds to it, as it was written; filled when it is parsed. */
export function passedOn(command: Command, declare: (command: Command) => Command): readonly string[] {
  const own = new Set(command.options);
  declare(command);
  const given: string[] = [];
  for (const option of command.options.filter((one) => !own.has(one))) {
    // Once for each of several values.
    command.on(`option:${option.name()}`, (value?: string | null) => {
      given.push(value == null ? option.long! : `${option.long}=${value}`);
    });
  }
  return given;
}
