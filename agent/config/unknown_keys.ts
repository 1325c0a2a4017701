/** Reports unknown keys in a file: a misspelt key must not be ignored. */
import { nearest } from './nearest.ts';
import { type Declared, SECTIONS, type SectionName, SHARED_KEYS } from './setting.ts';
import { type Entry, showPlace } from './toml_file.ts';

/** Returns lines for the user. A section that is not in `sections` belongs to another command. */
export function unknownKeys(
  entries: readonly Entry[],
  sections: ReadonlyMap<SectionName, readonly Declared[]>,
): string[] {
  const told = new Set<string>();
  return entries.flatMap((entry) => {
    const problem = problemOf(entry, sections);
    // An unknown table is reported once, not for each of its keys.
    const key = `${entry.place.path} ${entry.keys.slice(0, isSection(entry.keys[0]) ? 2 : 1).join('.')}`;
    if (problem === undefined || told.has(key)) return [];
    told.add(key);
    return [`${showPlace(entry.place)}: ${problem}`];
  });
}

function problemOf(
  { keys, value }: Entry,
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
    return `there is no ${key} in [${first}]${meant(key, known)}`;
  }
  const all = [...sections].flatMap(([section, declared]) => declared.map((each) => ({ section, ...each })));
  const key = keys.join('.');
  if (SHARED_KEYS.includes(key)) return undefined;
  const home = all.find(({ setting }) => setting.key === key);
  if (home) return `${key} is a key of a section: write it below [${home.section}]`;
  return `there is no ${first}${meant(first, [...SHARED_KEYS, ...SECTIONS])}`;
}

function meant(key: string, known: readonly string[]): string {
  const name = nearest(key, known);
  return name ? `; did you mean ${name}?` : '; `kreplay config print` lists what there is';
}

function isSection(key: string | undefined): key is SectionName {
  return SECTIONS.some((section) => section === key);
}
