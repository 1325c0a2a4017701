/**
 * Describes every command with its arguments and options, as declared with commander. Man pages and shell completions
 * are generated from these descriptions.
 */
import type { Command, Option } from 'commander';

export interface CommandFacts {
  /** Names of the parent commands and of the command itself, such as `['config', 'print']`. */
  path: readonly string[];
  description: string;
  /** Arguments as shown in the usage line. */
  usage: string;
  options: readonly OptionFacts[];
  commands: readonly CommandFacts[];
}

export interface OptionFacts {
  /** Flags as shown in the help, such as `-n, --node <name>`. */
  flags: string;
  long: string;
  description: string;
  /** Description with choices and default, as shown in the help. */
  help: string;
  takesValue: boolean;
  isList: boolean;
  choices: readonly string[];
  /** Name of the option's value, such as `file`; undefined if the option has no value. */
  argument: string | undefined;
}

/** Describes the command and all its subcommands. */
export function describeCommand(command: Command, above: readonly string[] = []): CommandFacts {
  const help = command.createHelp();
  return {
    path: above,
    description: command.description(),
    usage: help.commandUsage(command),
    options: help.visibleOptions(command).map((option) => describeOption(option, help.optionDescription(option))),
    commands: command.commands.map((one) => describeCommand(one, [...above, one.name()])),
  };
}

export function* walkCommands(command: CommandFacts): Generator<CommandFacts> {
  yield command;
  for (const below of command.commands) yield* walkCommands(below);
}

function describeOption(option: Option, help: string): OptionFacts {
  return {
    flags: option.flags,
    long: option.long!,
    description: option.description,
    help,
    takesValue: option.required || option.optional,
    isList: option.variadic,
    choices: option.argChoices ?? [],
    argument: /[<[]([^>\].]+)/.exec(option.flags)?.[1],
  };
}
