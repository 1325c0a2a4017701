/** Reads the configuration of a command at its start, and again at SIGHUP. */
import type { Command } from 'commander';
import type { Logger } from 'pino';
import { ConfigError } from '../process/errors.ts';
import { CONFIG_DEFAULT, readConfigFiles } from './files.ts';
import { findNearest } from './nearest.ts';
import { type Resolved, resolve, type Sources } from './resolve.ts';
import { type Declared, nameVariable, SECTIONS, type SectionName, Setting, SHARED_KEYS } from './setting.ts';
import { readEntries, showPlace, type TomlEntry } from './toml_file.ts';

/** Default folder that an agent records into. */
export const DATA_DEFAULT = './data';

export type Sections = ReadonlyMap<SectionName, readonly Declared[]>;

/** Environment variable that names the configuration file, like `--config`. */
export const CONFIG_VARIABLE = 'KREPLAY_CONFIG';

export interface Configuration {
  /**
   * Adds the options of a section. If two sections set an option of the same name, the section declared last counts.
   */
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

/** Reads and checks the configuration. Throws a ConfigError that lists every problem. */
export function readConfiguration(
  sections: Sections,
  { file, flags, environment }: { file: string | undefined } & Omit<Sources, 'entries'>,
): ReadConfiguration {
  const files = readConfigFiles(file ?? (environment[CONFIG_VARIABLE] || undefined));
  const { entries, problems } = collectEntries(files);
  problems.push(...findUnknownKeys(entries, sections), ...findUnknownVariables(environment, sections));
  const resolved = new Map<SectionName, Resolved[]>();
  for (const [section, declared] of sections)
    resolved.set(section, resolve(section, declared, { flags, environment, entries }, problems));
  // Reports the problem of a shared key once, although each section has it.
  if (problems.length > 0) throw new ConfigError([...new Set(problems)].join('\n'));
  return { paths: files.map(({ path }) => path), sections: resolved };
}

function collectEntries(files: ReturnType<typeof readConfigFiles>): { entries: TomlEntry[]; problems: string[] } {
  const read = files.map(({ path, text }) => readEntries(path, text));
  return {
    entries: read.flatMap(({ entries }) => entries),
    problems: read.flatMap(({ problems }) => problems).map(({ place, message }) => `${showPlace(place)}: ${message}`),
  };
}

export function addConfigOption(command: Command): Command {
  return command.option(
    '--config <file>',
    `configuration file in TOML; flags take precedence (default: ${CONFIG_DEFAULT})`,
  );
}

/**
 * Adds `--data` to a command that reads an agent's recordings. The default is the folder in the agent's configuration.
 * Other settings do not concern the command, so wrong values of them are ignored.
 */
export function addDataFolderOption(command: Command, description: string): Command {
  const setting = new Setting('--data <folder>', description).default(
    DATA_DEFAULT,
    `the agent's, else "${DATA_DEFAULT}"`,
  );
  command.addOption(setting.shared()).hook('preAction', (_command, asked) => {
    // Without `--data` and `--recording`, the folder comes from the configuration.
    if (asked.getOptionValueSource('data') !== 'default' || asked.getOptionValue('recording') !== undefined) return;
    const { entries } = collectEntries(readConfigFiles(process.env[CONFIG_VARIABLE] || undefined));
    const problems: string[] = [];
    const sources = { flags: new Map(), environment: process.env, entries };
    const [data] = resolve('agent', [{ setting, negatable: false }], sources, problems);
    if (problems.length > 0) throw new ConfigError(problems.join('\n'));
    asked.setOptionValueWithSource('data', data!.value, 'config');
  });
  return command;
}

/** Connects a command to its configuration. Must be called before the command gets hooks that read its options. */
export function attachConfiguration(command: Command): Configuration {
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

/* Reports unknown keys in a file: a misspelt key must not be ignored. */

/**
 * Returns a message for each unknown key. Keys of a section that is not in `sections` belong to another command and are
 * not checked.
 */
function findUnknownKeys(
  entries: readonly TomlEntry[],
  sections: ReadonlyMap<SectionName, readonly Declared[]>,
): string[] {
  const told = new Set<string>();
  return entries.flatMap((entry) => {
    const problem = findKeyProblem(entry, sections);
    // Reports an unknown table once, not for each of its keys.
    const key = `${entry.place.path} ${entry.keys.slice(0, isSection(entry.keys[0]) ? 2 : 1).join('.')}`;
    if (problem === undefined || told.has(key)) return [];
    told.add(key);
    return [`${showPlace(entry.place)}: ${problem}`];
  });
}

function findKeyProblem(
  { keys, value }: TomlEntry,
  sections: ReadonlyMap<SectionName, readonly Declared[]>,
): string | undefined {
  const [first = '', ...rest] = keys;
  if (isSection(first)) {
    if (rest.length === 0)
      return value === undefined ? undefined : `${first} is a section: write [${first}] above its keys`;
    const declared = sections.get(first);
    const key = rest.join('.');
    if (!declared || declared.some(({ setting }) => setting.key === key)) return undefined;
    const known = declared.map(({ setting }) => setting.key);
    return `there is no ${key} in [${first}]${formatSuggestion(key, known)}`;
  }
  const all = [...sections].flatMap(([section, declared]) => declared.map((each) => ({ section, ...each })));
  const key = keys.join('.');
  if (SHARED_KEYS.includes(key)) return undefined;
  const home = all.find(({ setting }) => setting.key === key);
  if (home) return `${key} is a key of a section: write it below [${home.section}]`;
  return `there is no ${first}${formatSuggestion(first, [...SHARED_KEYS, ...SECTIONS])}`;
}

function formatSuggestion(key: string, known: readonly string[]): string {
  const name = findNearest(key, known);
  return name ? `; did you mean ${name}?` : '; `kreplay config print` lists what there is';
}

function isSection(key: string | undefined): key is SectionName {
  return SECTIONS.some((section) => section === key);
}

/* Reports environment variables that look like a misspelt setting: they must not be ignored. */

/**
 * Maximum number of wrong letters. It is small, because other software uses similar names: Kubernetes passes a service
 * "kreplay-agent" to pods in KREPLAY_AGENT_SERVICE_HOST, KREPLAY_AGENT_PORT and more.
 */
const WRONG_LETTERS_MAX = 2;

/** Returns a message for each misspelt variable. */
function findUnknownVariables(
  environment: NodeJS.ProcessEnv,
  sections: ReadonlyMap<SectionName, readonly Declared[]>,
): string[] {
  const known = [...sections].flatMap(([section, declared]) =>
    declared.flatMap(({ setting }) => [
      nameVariable(setting, section),
      ...(setting.isShared ? [nameVariable(setting)] : []),
    ]),
  );
  const written = Object.keys(environment).filter((name) => name.startsWith('KREPLAY_') && environment[name]);
  return written.flatMap((name) => {
    const meant = known.includes(name) ? undefined : findNearest(name, known, WRONG_LETTERS_MAX);
    return meant ? [`${name}: there is no such variable; did you mean ${meant}?`] : [];
  });
}
