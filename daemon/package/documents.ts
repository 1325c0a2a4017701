/** Generates the package's documentation of the commands: man pages and shell completions. */
import type { Command } from 'commander';
import type { SectionName } from '../../agent/config/setting.ts';
import { createWholeProgram } from '../cli/program.ts';
import { describeCommand } from './command_tree.ts';
import { buildBashCompletion, buildFishCompletion, buildZshCompletion } from './completions.ts';
import { buildCommandPage, buildConfigurationPage, type PageFacts } from './man_pages.ts';

/** Returns the content of each document by its path below `/`. */
export async function buildDocuments(facts: PageFacts): Promise<Map<string, string>> {
  const program = await createWholeProgram();
  const root = describeCommand(program);
  const findCommand = (among: Command, name: string) => among.commands.find((command) => command.name() === name)!;
  const sections = new Map<SectionName, Command>([
    ...(['agent', 'daemon', 'ship', 'watch'] as const).map((name) => [name, findCommand(program, name)] as const),
    ['fleet', findCommand(findCommand(program, 'fleet'), 'retain')],
  ]);
  return new Map([
    ['usr/share/man/man1/kreplay.1', buildCommandPage(root, facts)],
    ['usr/share/man/man5/kreplay.toml.5', buildConfigurationPage(sections, facts)],
    ['usr/share/bash-completion/completions/kreplay', buildBashCompletion(root)],
    ['usr/share/zsh/vendor-completions/_kreplay', buildZshCompletion(root)],
    ['usr/share/fish/vendor_completions.d/kreplay.fish', buildFishCompletion(root)],
  ]);
}
