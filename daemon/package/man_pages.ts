/**
 * Generates the man pages kreplay(1) and kreplay.toml(5) from the declarations of the commands. The format is man(7),
 * because every man program reads it.
 */

import type { Command } from 'commander';
import { CONFIG_DEFAULT } from '../../agent/config/files.ts';
import { describeExpected } from '../../agent/config/resolve.ts';
import { type Declared, listDeclared, nameVariable, type SectionName } from '../../agent/config/setting.ts';
import { type CommandFacts, type OptionFacts, walkCommands } from './command_tree.ts';

export interface PageFacts {
  version: string;
  /** Date of the pages, such as `2026-11-22`. */
  date: string;
}

export function buildCommandPage(root: CommandFacts, { version, date }: PageFacts): string {
  const commands = [...walkCommands(root)].filter(({ path }) => path.length > 0);
  return [
    `.TH KREPLAY 1 ${date} "kreplay ${version}" "User Commands"`,
    '.SH NAME',
    'kreplay \\- a kernel flight recorder with replay',
    '.SH SYNOPSIS',
    '.B kreplay',
    '.I COMMAND',
    '[\\fIOPTION\\fR...]',
    '.SH DESCRIPTION',
    'An agent records what programs ask of the kernel, with the service, transaction and trace that caused it, in one file',
    'a node. A daemon answers questions about it over HTTP, and replays an incident event by event.',
    '.SH COMMANDS',
    ...commands.flatMap(buildCommandPart),
    '.SH FILES',
    ...buildFilesPart(),
    '.SH EXIT STATUS',
    '0: success. 1: failure; standard error states the cause. 2: wrong usage or wrong configuration. The help of a command',
    'has its other codes.',
    '.B kreplay run',
    'exits with the code of its command, or with 125 when kreplay itself failed.',
    '.SH SEE ALSO',
    '.BR kreplay.toml (5)',
    '',
  ].join('\n');
}

function buildCommandPart({ usage, description, options }: CommandFacts): string[] {
  return [`.SS ${escapeTroff(usage)}`, escapeTroff(toSentence(description)), ...options.flatMap(buildOptionPart)];
}

function buildOptionPart({ flags, help }: OptionFacts): string[] {
  return ['.TP', `.B ${escapeTroff(flags)}`, escapeTroff(help)];
}

function buildFilesPart(): string[] {
  return [
    ['/etc/kreplay/kreplay.toml, /etc/kreplay/kreplay.d/*.toml', 'configuration: see kreplay.toml(5)'],
    ['/etc/kreplay/watch.toml', 'rules and webhook of kreplay watch'],
    ['/var/lib/kreplay/recording.kreplay', 'what the agent of the service records'],
    ['/var/lib/kreplay\\-daemon/sessions.sqlite', "the service's replay sessions"],
    ['/var/lib/kreplay\\-ship/position.json', 'how far the recording is shipped to a fleet'],
    ['/var/lib/kreplay\\-watch/bundles', 'bundles of the transactions that kreplay watch has kept'],
  ].flatMap(([path, text]) => ['.TP', `.I ${path}`, escapeTroff(text!)]);
}

/** Builds kreplay.toml(5). `sections` maps each section of the file to the command whose options it contains. */
export function buildConfigurationPage(
  sections: ReadonlyMap<SectionName, Command>,
  { version, date }: PageFacts,
): string {
  const declared = [...sections].map(([name, command]) => [name, listDeclared(command)] as const);
  return [
    `.TH KREPLAY.TOML 5 ${date} "kreplay ${version}" "File Formats"`,
    '.SH NAME',
    'kreplay.toml \\- configuration of kreplay agent, kreplay daemon, kreplay ship, kreplay watch, kreplay fleet retain and kreplay up',
    '.SH SYNOPSIS',
    `.I ${escapeTroff(CONFIG_DEFAULT)}`,
    '.br',
    '.I /etc/kreplay/kreplay.d/*.toml',
    '.SH DESCRIPTION',
    'A flag takes precedence over an environment variable, that over the files, and these over the defaults. Of the',
    'files, the last one that has a key counts: kreplay.toml is read first, then those in kreplay.d in the order of their',
    'names. The option \\-\\-config, or the variable KREPLAY_CONFIG, names another file than kreplay.toml; the folder',
    'with the name of that file, and .d for .toml, is then read too.',
    '.PP',
    'The files are TOML. A key is the name of a flag without its dashes, in the section of its command; keys that are in several',
    'sections, marked here as shared, may also be above all sections. Unknown keys and wrong types are errors.',
    '.PP',
    'An empty variable counts as not set. Switches are true or false; lists are separated by commas, or in JSON.',
    '.PP',
    'At SIGHUP files are read again. What is marked as reloaded takes effect; the log names other changed',
    'settings, which wait for a restart.',
    '.B kreplay config validate',
    'reports every error,',
    '.B kreplay config print \\-\\-origin',
    'prints each setting and its origin.',
    ...declared.flatMap(([name, settings]) => [
      `.SH [${name}]`,
      ...settings.flatMap((one) => buildSettingPart(name, one)),
    ]),
    '.SH EXAMPLE',
    '.nf',
    ...EXAMPLE.trim().split('\n').map(escapeTroff),
    '.fi',
    '.SH SEE ALSO',
    '.BR kreplay (1)',
    '',
  ].join('\n');
}

const EXAMPLE = `
data = "/var/lib/kreplay"
[agent]
retain-bytes = "20GiB"
except-comm = ["backup"]
[daemon]
listen = "127.0.0.1:7467"
`;

function buildSettingPart(section: SectionName, declared: Declared): string[] {
  const { setting } = declared;
  const choices = setting.argChoices ? ` One of ${setting.argChoices.join(', ')}.` : '';
  const builtIn = setting.defaultRaw === undefined ? '' : ` Default: ${String(setting.defaultRaw)}.`;
  const marks = [...(setting.isShared ? ['Shared.'] : []), ...(setting.isReloaded ? ['Reloaded.'] : [])].join(' ');
  const variables = [nameVariable(setting, section), ...(setting.isShared ? [nameVariable(setting)] : [])].join(', ');
  return [
    '.TP',
    `.B ${escapeTroff(setting.key)}`,
    escapeTroff(
      `${toSentence(setting.description)} It is ${describeExpected(declared)}.${choices}${builtIn} ${marks}`.trim(),
    ),
    '.br',
    `Variable: ${escapeTroff(variables)}`,
  ];
}

function toSentence(text: string): string {
  const whole = text.endsWith('.') ? text : `${text}.`;
  return whole[0]!.toUpperCase() + whole.slice(1);
}

/** Escapes text for troff, so that no part of it is taken as a request or an escape sequence. */
function escapeTroff(text: string): string {
  const escaped = text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll(/\s+/g, ' ');
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}
