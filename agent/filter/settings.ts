/**
 * Filter settings: which events an operator wants recorded. They come from flags, from a file that can change while the
 * agent runs, or from both.
 */
import { readFileSync } from 'node:fs';
import { EVENTS, type EventType } from '../../bpf/schema/index.ts';
import { parseDuration } from '../../daemon/base/duration.ts';
import { ConfigError } from '../process/errors.ts';

/**
 * Names of a filter's lists. If a list's `only` has items, only events that match one of them are recorded. `except`
 * takes precedence over `only`.
 */
export const LISTS = ['pids', 'comms', 'services', 'cgroups'] as const;

export type ListName = (typeof LISTS)[number];

export interface List {
  only: ReadonlySet<string>;
  except: ReadonlySet<string>;
}

export interface FilterSettings extends Readonly<Record<ListName, List>> {
  onlyLabelled: boolean;
  minDurationNs: bigint;
  eventTypes: ReadonlySet<EventType>;
}

/** Keys of the filter file. The flags are translated to the same keys. */
export interface FilterTexts {
  only_labelled?: boolean;
  min_duration?: string;
  event_types?: readonly string[];
  pids?: readonly string[];
  except_pids?: readonly string[];
  comms?: readonly string[];
  except_comms?: readonly string[];
  services?: readonly string[];
  except_services?: readonly string[];
  cgroups?: readonly string[];
  except_cgroups?: readonly string[];
}

const LIST_KEYS: ReadonlySet<string> = new Set(['event_types', ...LISTS, ...LISTS.map((name) => `except_${name}`)]);

/** Parses the filter's texts. For an invalid text, throws a ConfigError that says what to write instead. */
export function filterSettings(texts: FilterTexts): FilterSettings {
  const known = EVENTS.map(({ name }) => name);
  for (const name of texts.event_types ?? []) {
    if (!known.some((type) => type === name))
      throw createFilterError('event_types', name, `one of ${known.join(', ')}`);
  }
  const minDurationNs = texts.min_duration === undefined ? 0n : parseDuration(texts.min_duration);
  if (minDurationNs === undefined)
    throw createFilterError('min_duration', texts.min_duration!, 'a duration such as 500us or 2ms');
  const lists = Object.fromEntries(LISTS.map((name) => [name, buildList(texts, name)])) as Record<ListName, List>;
  for (const pid of [...lists.pids.only, ...lists.pids.except]) {
    if (!isPid(pid)) throw createFilterError('pids', pid, 'the number of a process');
  }
  const eventTypes = new Set(texts.event_types?.length ? (texts.event_types as EventType[]) : known);
  return { ...lists, onlyLabelled: texts.only_labelled ?? false, minDurationNs, eventTypes };
}

export function isPid(text: string): boolean {
  return /^[1-9]\d{0,6}$/.test(text);
}

function buildList(texts: FilterTexts, name: ListName): List {
  return { only: new Set(texts[name]), except: new Set(texts[`except_${name}`]) };
}

function createFilterError(key: string, value: string, expected: string): ConfigError {
  return new ConfigError(`the filter's ${key} cannot be ${JSON.stringify(value)}: give ${expected}`);
}

/** Reads a JSON object with the keys of `FilterTexts`, which override the flags. Throws a ConfigError. */
export function readFilterFile(path: string): FilterTexts {
  const read = readJson(path);
  if (typeof read !== 'object' || read === null || Array.isArray(read))
    throw new ConfigError(`${path} holds no object`);
  for (const [key, value] of Object.entries(read)) {
    const expected = findUnmetExpectation(key, value);
    if (expected) throw new ConfigError(`${path}: ${key} is ${JSON.stringify(value)}: give ${expected}`);
  }
  const { pids, except_pids, ...rest } = read as FilterTexts;
  return {
    ...rest,
    ...(pids && { pids: pids.map(String) }),
    ...(except_pids && { except_pids: except_pids.map(String) }),
  };
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`the filter file ${path} cannot be read: ${(error as Error).message}`);
  }
}

/** Returns a description of what the value must be; undefined if the value is valid. */
function findUnmetExpectation(key: string, value: unknown): string | undefined {
  if (key === 'only_labelled') return typeof value === 'boolean' ? undefined : 'true or false';
  if (key === 'min_duration') return typeof value === 'string' ? undefined : 'a text such as "2ms"';
  if (!LIST_KEYS.has(key)) return `one of the keys ${['only_labelled', 'min_duration', ...LIST_KEYS].join(', ')}`;
  const kind = key.endsWith('pids') ? 'number' : 'string';
  const isList = Array.isArray(value) && value.every((item) => typeof item === kind);
  return isList ? undefined : `a list of ${kind === 'number' ? 'numbers' : 'texts'}`;
}
