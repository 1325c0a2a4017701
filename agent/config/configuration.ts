/** The configuration of a command: its settings at start, and again at SIGHUP. */
import type { Command } from 'commander';
import type { Logger } from 'pino';
import { ConfigError } from './errors.ts';
import { CONFIG_DEFAULT, readConfigFiles } from './files.ts';
import { type Resolved, resolve, type Sources } from './resolve.ts';
import { type Declared, type SectionName, Setting } from './setting.ts';
import { type Entry, readEntries, showPlace } from './toml_file.ts';
import { unknownKeys } from './unknown_keys.ts';
import { unknownVariables } from './unknown_variables.ts';

/** Folder that an agent records into by default. */
export const DATA_DEFAULT = './data';

export type Sections = ReadonlyMap<SectionName, readonly Declared[]>;

/** Environment variable that names the file, like `--config`. */
export const CONFIG_VARIABLE = 'KREPLAY_CONFIG';

export interface Configuration {
  /** Where two sections set an option of the same name, the last one counts. */
  declare(section: SectionName, declared: readonly Declared[]): Configuration;
  /**
   * Reads the files again and returns the flags to use from now on. Logs changes that need a restart. Throws
   * ConfigError.
   */
  reread<Flags>(log: Logger): Flags;
}

export interface ReadConfiguration {
  /** Paths of the files that were read. */
  paths: string[];
  sections: Map<SectionName, Resolved[]>;
}

/** Throws a ConfigError that lists everything that is wrong. */
export function readConfiguration(
  sections: Sections,
  { file, flags, environment }: { file: string | undefined } & Omit<Sources, 'entries'>,
): ReadConfiguration {
  const files = readConfigFiles(file ?? (environment[CONFIG_VARIABLE] || undefined));
  const { entries, problems } = entriesOf(files);
  problems.push(...unknownKeys(entries, sections), ...unknownVariables(environment, sections));
  const resolved = new Map<SectionName, Resolved[]>();
  for (const [section, declared] of sections)
    resolved.set(section, resolve(section, declared, { flags, environment, entries }, problems));
  // A wrong shared key is reported once, although it is wrong in each section.
  if (problems.length > 0) throw new ConfigError([...new Set(problems)].join('\n'));
  return { paths: files.map(({ path }) => path), sections: resolved };
}

function entriesOf(files: ReturnType<typeof readConfigFiles>): { entries: Entry[]; problems: string[] } {
  const read = files.map(({ path, text }) => readEntries(path, text));
  return {
    entries: read.flatMap(({ entries }) => entries),
    problems: read.flatMap(({ problems }) => problems).map(({ place, message }) => `${showPlace(place)}: ${message}`),
  };
}

export function withConfigOption(command: Command): Command {
  return command.option(
    '--config <file>',
    `configuration file in TOML; flags take precedence (default: ${CONFIG_DEFAULT})`,
  );
}

/**
 * Adds `--data` to commands that read an agent's recordings; its default is the folder in the agent's configuration. No
 * other setting concerns these commands, so no other one can make them fail.
 */
export function withDataFolder(command: Command, description: string): Command {
  const setting = new Setting('--data <folder>', description).default(
    DATA_DEFAULT,
    `the agent's, else "${DATA_DEFAULT}"`,
  );
  command.addOption(setting.shared()).hook('preAction', (_command, asked) => {
    // `--recording` may be given instead.
    if (asked.getOptionValueSource('data') !== 'default' || asked.getOptionValue('recording') !== undefined) return;
    const { entries } = entriesOf(readConfigFiles(process.env[CONFIG_VARIABLE] || undefined));
    const problems: string[] = [];
    const sources = { flags: new Map(), environment: process.env, entries };
    const [data] = resolve('agent', [{ setting, negatable: false }], sources, problems);
    if (problems.length > 0) throw new ConfigError(problems.join('\n'));
    asked.setOptionValueWithSource('data', data!.value, 'config');
  });
  return command;
}

/** Must be called before the command gets hooks that look at its options. */
export function withConfiguration(command: Command): Configuration {
  const sections = new Map<SectionName, readonly Declared[]>();
  const flags = new Map<string, unknown>();
  let atStart: ReadConfiguration;

  function read(): ReadConfiguration {
    return readConfiguration(sections, { file: command.opts().config, flags, environment: process.env });
  }

  command.hook('preAction', () => {
    for (const name of Object.keys(command.opts()))
      if (command.getOptionValueSource(name) === 'cli') flags.set(name, command.getOptionValue(name));
    atStart = read();
    for (const { declared, value, origin } of [...atStart.sections.values()].flat()) {
      if (origin.from === 'environment' || origin.from === 'file')
        command.setOptionValueWithSource(declared.setting.attributeName(), value, 'config');
    }
  });

  return {
    declare(section, declared) {
      sections.set(section, declared);
      return this;
    },
    reread<Flags>(log: Logger) {
      const now = [...read().sections.values()].flat();
      const before = [...atStart.sections.values()].flat();
      const reloaded = now.filter(({ declared }) => declared.setting.isReloaded);
      const values = reloaded.map(({ declared, value }) => [declared.setting.attributeName(), value]);
      const changed = now.filter(({ raw }, i) => JSON.stringify(raw) !== JSON.stringify(before[i]!.raw));
      const waiting = changed.filter(({ declared }) => !declared.setting.isReloaded);
      if (waiting.length > 0) {
        const settings = waiting.map(({ declared }) => declared.setting.key);
        log.warn({ settings }, 'the configuration has changed; these are read at the next start');
      }
      return { ...command.opts(), ...Object.fromEntries(values) } as Flags;
    },
  };
}
