/** Determines the value and origin of each setting: flag, then environment, then files, then default. */
import { z } from 'zod';
import { type Declared, nameVariable, type RawValue, type SectionName } from './setting.ts';
import { type ConfigProblem, type SourceLocation, showPlace, type TomlEntry, type TomlValue } from './toml_file.ts';
import { createTextSchema, getIssueMessage } from './values.ts';

export type Origin =
  | { from: 'flag' }
  | { from: 'environment'; name: string }
  | ({ from: 'file' } & SourceLocation)
  | { from: 'default' };

export interface Resolved {
  declared: Declared;
  /** Value of the type that the command expects. */
  value: unknown;
  /** The value as written; undefined for a flag, and for a setting that is not set and has no default. */
  raw: RawValue | undefined;
  origin: Origin;
}

export interface Sources {
  /** Values from the command line, by attribute name. */
  flags: ReadonlyMap<string, unknown>;
  environment: NodeJS.ProcessEnv;
  entries: readonly TomlEntry[];
}

/** Resolves the settings of one section. Adds a message to `problems` for each unusable value. */
export function resolve(
  section: SectionName,
  declared: readonly Declared[],
  { flags, environment, entries }: Sources,
  problems: string[],
): Resolved[] {
  const written = collectFileSettings(section, declared, entries, problems);
  return declared.map((each) => {
    const { setting } = each;
    const name = setting.attributeName();
    if (flags.has(name)) return { declared: each, value: flags.get(name), raw: undefined, origin: { from: 'flag' } };
    const given = readEnvironmentSetting(environment, section, each, problems) ?? written.get(setting.key);
    if (given) return { declared: each, ...given };
    return { declared: each, value: setting.defaultValue, raw: setting.defaultRaw, origin: { from: 'default' } };
  });
}

type OptionValue = Pick<Resolved, 'value' | 'raw' | 'origin'>;

/**
 * Reads a setting from the environment. Ignores empty variables, which files of environment variables often contain.
 */
function readEnvironmentSetting(
  environment: NodeJS.ProcessEnv,
  section: SectionName,
  declared: Declared,
  problems: string[],
): OptionValue | undefined {
  const { setting } = declared;
  const names = [nameVariable(setting, section), ...(setting.isShared ? [nameVariable(setting)] : [])];
  const name = names.find((each) => environment[each]);
  if (name === undefined) return undefined;
  const raw = parseRawValue(environment[name]!, declared);
  if (typeof raw === 'object' && 'wrong' in raw) {
    problems.push(`${name}: ${raw.wrong}`);
    return undefined;
  }
  const parsed = parse(declared, raw);
  if ('wrong' in parsed) problems.push(`${name}: ${parsed.wrong}`);
  else return { value: parsed.value, raw, origin: { from: 'environment', name } };
  return undefined;
}

const SWITCH = z.stringbool({
  truthy: ['true', '1'],
  falsy: ['false', '0'],
  case: 'sensitive',
  error: ({ input }) => `it is ${JSON.stringify(input)}: give true or false`,
});

const JSON_LIST = createTextSchema(parseJson, 'it begins with [ but is not a list in JSON, such as ["a","b"]');

/** Parses the text of a variable: `true`, `16`, `a,b`, or a list in JSON for names that contain a comma. */
function parseRawValue(text: string, { setting, negatable }: Declared): RawValue | { wrong: string } {
  const isSwitch = setting.isBoolean() || (negatable && text === 'false');
  if (!isSwitch && !setting.isList) return text;
  if (!isSwitch && !text.startsWith('[')) return text.split(',');
  const { success, data, error } = (isSwitch ? SWITCH : JSON_LIST).safeParse(text);
  return success ? data : { wrong: getIssueMessage(error) };
}

const TEXTS = z.array(z.union([z.string(), z.number()]).transform(String));

function parseJson(text: string): string[] | undefined {
  try {
    return TEXTS.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function parse({ setting }: Declared, raw: RawValue): { value: unknown } | { wrong: string } {
  if (typeof raw === 'boolean') return { value: raw };
  const { success, data, error } = (setting.isList ? z.array(setting.schema) : setting.schema).safeParse(raw);
  return success ? { value: data } : { wrong: getIssueMessage(error) };
}

/**
 * Returns this section's values in the files, by key. The section's own keys override shared keys, and later files
 * override earlier files.
 */
function collectFileSettings(
  section: SectionName,
  declared: readonly Declared[],
  entries: readonly TomlEntry[],
  problems: string[],
): Map<string, OptionValue> {
  const shared = new Map<string, OptionValue>();
  const own = new Map<string, OptionValue>();
  for (const entry of entries) {
    const inSection = entry.keys[0] === section;
    const key = entry.keys.slice(inSection ? 1 : 0).join('.');
    const found = declared.find(({ setting }) => setting.key === key && (inSection || setting.isShared));
    if (!found) continue;
    const given = parseEntry(entry, found);
    if ('message' in given) problems.push(`${showPlace(given.place)}: ${given.message}`);
    else (inSection ? own : shared).set(key, given);
  }
  return new Map([...shared, ...own]);
}

function parseEntry({ keys, value, place, valuePlace }: TomlEntry, declared: Declared): OptionValue | ConfigProblem {
  const key = keys.at(-1)!;
  const raw = value && toRawValue(value, declared);
  if (raw === undefined) return { place: valuePlace, message: `${key} must be ${describeExpected(declared)}` };
  const parsed = parse(declared, raw);
  if ('wrong' in parsed) return { place: valuePlace, message: `${key}: ${parsed.wrong}` };
  return { value: parsed.value, raw, origin: { from: 'file', ...place } };
}

/** Converts a TOML value to the setting's form; returns undefined if the value is not of the setting's type. */
function toRawValue(value: TomlValue, { setting, negatable }: Declared): RawValue | undefined {
  if (value.kind === 'boolean') {
    return setting.isBoolean() || (negatable && !value.value) ? value.value : undefined;
  }
  const wanted = setting.isInteger ? 'number' : 'text';
  if (setting.isBoolean()) return undefined;
  if (!setting.isList) return value.kind === wanted ? value.value : undefined;
  if (value.kind !== 'list') return undefined;
  const texts = value.items.map((item) => (item.value.kind === wanted ? item.value.value : undefined));
  return texts.some((text) => text === undefined) ? undefined : (texts as string[]);
}

export function describeExpected({ setting, negatable }: Declared): string {
  if (setting.isBoolean()) return 'true or false';
  if (setting.isList)
    return setting.isInteger ? 'a list of whole numbers, such as [1, 2]' : 'a list of texts, such as ["a", "b"]';
  const one = setting.isInteger ? 'a whole number' : 'a text in quotes';
  return negatable ? `${one}, or false` : one;
}
