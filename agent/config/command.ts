/** `kreplay config`: checks a configuration and prints the resulting settings. */
import { Command, Option } from 'commander';
import { ConfigError } from '../process/errors.ts';
import { addConfigOption, type ReadConfiguration, readConfiguration, type Sections } from './configuration.ts';
import { addHelpEnd, EXIT_CODES } from './help.ts';
import type { Origin, Resolved } from './resolve.ts';
import { listDeclared, type RawValue, type SectionName } from './setting.ts';
import { showPlace } from './toml_file.ts';

export interface SectionCommand {
  /** Adds the command's options. */
  declare: (command: Command) => Command;
  /** Runs the checks that need all settings. Throws a ConfigError or returns the problem. */
  check: (flags: Record<string, unknown>) => string | undefined;
}

export type SectionCommands = Readonly<Record<SectionName, SectionCommand>>;

interface Flags {
  config?: string;
}

export function createConfigCommand(commands: SectionCommands): Command {
  const command = new Command('config')
    .summary('check or print the configuration')
    .description('check or print the configuration of `agent`, `daemon`, `ship`, `watch` and `up`');
  const validate = new Command('validate')
    .description('check all configuration files and variables, and report every error')
    .action(({ config }: Flags) => {
      const read = readAll(commands, config);
      checkEach(commands, read);
      process.stdout.write(`kreplay: ${read.paths.length > 0 ? read.paths.join(', ') : 'no file'}: all right\n`);
    });
  const print = new Command('print')
    .description('print every setting, without flags, as a configuration file')
    .option('--origin', 'add the origin of each setting', false)
    .addOption(
      new Option('--output <format>', 'output format; json always includes the origins')
        .choices(['text', 'json'])
        .default('text'),
    )
    .action(({ config, origin, output }: Flags & { origin: boolean; output: string }) => {
      const read = readAll(commands, config);
      process.stdout.write(output === 'json' ? formatJson(read) : formatToml(read, origin));
    });
  const examples = {
    validate: ['kreplay config validate', 'kreplay config validate --config ./kreplay.toml'],
    print: ['kreplay config print --origin', 'kreplay config print --output json'],
  };
  addHelpEnd(addConfigOption(validate), {
    examples: examples.validate,
    exitCodes: { 0: 'the configuration is valid', 2: EXIT_CODES[2] },
  });
  addHelpEnd(addConfigOption(print), { examples: examples.print, exitCodes: { 0: EXIT_CODES[0], 2: EXIT_CODES[2] } });
  addHelpEnd(command, {
    examples: [...examples.validate, ...examples.print],
    exitCodes: { 0: EXIT_CODES[0], 2: EXIT_CODES[2] },
  });
  return command.addCommand(validate).addCommand(print);
}

/** Returns the options of all sections, as the commands declare them. */
export function collectSections(commands: SectionCommands): Sections {
  const declareSection = (name: SectionName) => listDeclared(commands[name].declare(new Command(name)));
  return new Map((Object.keys(commands) as SectionName[]).map((name) => [name, declareSection(name)]));
}

function readAll(commands: SectionCommands, file: string | undefined): ReadConfiguration {
  return readConfiguration(collectSections(commands), { file, flags: new Map(), environment: process.env });
}

function checkEach(commands: SectionCommands, { sections }: ReadConfiguration): void {
  const problems = [...sections].flatMap(([name, settings]) => {
    const flags = Object.fromEntries(settings.map(({ declared, value }) => [declared.setting.attributeName(), value]));
    const wrong = findSectionProblem(commands[name], flags);
    return (wrong?.split('\n') ?? []).map((line) => `[${name}] ${line}`);
  });
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
}

/** Returns the problem of a section. A ConfigError is a problem, too: a file that a setting names may be invalid. */
function findSectionProblem({ check }: SectionCommand, flags: Record<string, unknown>): string | undefined {
  try {
    return check(flags);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message;
  }
}

function formatToml({ sections }: ReadConfiguration, withOrigin: boolean): string {
  return [...sections]
    .map(([name, settings]) => `[${name}]\n${settings.map((one) => formatSettingLine(one, withOrigin)).join('')}`)
    .join('\n');
}

function formatSettingLine(resolved: Resolved, withOrigin: boolean): string {
  const { declared, raw, origin } = resolved;
  const { key } = declared.setting;
  if (raw === undefined) return `# ${key} is not set\n`;
  const line = `${key} = ${encodeToml(raw, declared.setting.isInteger)}`;
  return withOrigin ? `${line} # ${showOrigin(origin)}\n` : `${line}\n`;
}

function encodeToml(raw: RawValue, isInteger: boolean): string {
  if (typeof raw === 'boolean') return String(raw);
  if (typeof raw === 'object') return `[${raw.map((item) => encodeToml(item, isInteger)).join(', ')}]`;
  // A JSON string is also a basic string of TOML, except that TOML requires DEL to be escaped.
  return isInteger ? raw : JSON.stringify(raw).replaceAll('\x7f', '\\u007f');
}

function showOrigin(origin: Origin): string {
  if (origin.from === 'file') return showPlace(origin);
  return origin.from === 'environment' ? `$${origin.name}` : origin.from;
}

function formatJson({ paths, sections }: ReadConfiguration): string {
  const settings = [...sections].map(([name, all]) => [
    name,
    Object.fromEntries(
      all.map(({ declared, raw, origin }) => [
        declared.setting.key,
        { value: toJsonValue(declared.setting.isInteger, raw), origin },
      ]),
    ),
  ]);
  return `${JSON.stringify({ files: paths, ...Object.fromEntries(settings) }, null, 2)}\n`;
}

function toJsonValue(isInteger: boolean, raw: RawValue | undefined): unknown {
  if (raw === undefined) return null;
  if (!isInteger) return raw;
  return typeof raw === 'object' ? raw.map(Number) : Number(raw);
}
