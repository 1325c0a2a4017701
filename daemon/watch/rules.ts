/**
 * Reads the rules file of `kreplay watch`. This TOML file defines which transactions are kept and which webhook is
 * called.
 */
import { readFileSync } from 'node:fs';
import { findNearest } from '../../agent/config/nearest.ts';
import {
  type ConfigProblem,
  readEntries,
  showPlace,
  type TomlEntry,
  type TomlValue,
} from '../../agent/config/toml_file.ts';
import { ConfigError } from '../../agent/process/errors.ts';
import { parseDuration } from '../base/duration.ts';
import { parseErrorName } from '../store/blocks/errno.ts';

/** A number of matches within a period. */
export interface MatchRate {
  count: number;
  withinNs: bigint;
}

/** A rule of the file. A transaction matches the rule if all given conditions hold. */
export interface Rule {
  name: string;
  /** Names of services; at least one of them must have taken part in the transaction. */
  services?: readonly string[];
  /** Minimum duration of the transaction. */
  minDurationNs?: bigint;
  /** Minimum duration of an event. One event must meet this condition, `failed` and `results` together. */
  minEventNs?: bigint;
  failed?: true;
  results?: readonly bigint[];
  /** Minimum rate: transactions match only once this many meet the conditions within the period. */
  atLeast?: MatchRate;
  /** Matches beyond this rate are dropped. */
  atMost?: MatchRate;
  /** Time after a delivery in which further matches of the rule and the same service are kept without a delivery. */
  coolDownNs: bigint;
}

export interface Webhook {
  url: URL;
  secretFile?: string;
  caFile?: string;
  timeoutMs: number;
}

export interface WatchRules {
  rules: readonly Rule[];
  webhook?: Webhook;
}

export const RULES_DEFAULT = '/etc/kreplay/watch.toml';
export const RULES_MAX = 64;
const FILE_BYTES_MAX = 256 * 1024;
const RULE_NAME = /^[\w.-]{1,64}$/;
/**
 * Maximum count in `at-least` and `at-most`. It limits how many candidates the state stores for a rule with `at-least`.
 */
const RATE_COUNT_MAX = 1000;
const RATE_NS_MAX = 86_400_000_000_000n;
const COOL_DOWN_NS_MAX = 7n * 86_400_000_000_000n;
const SERVICES_MAX = 100;
const TIMEOUT_MS_DEFAULT = 10_000;
const TIMEOUT_MS_MAX = 60_000;

/**
 * Reads a rules file. A file given by the user must exist; the default file may be missing. Throws a ConfigError that
 * lists all errors in the file.
 */
export function readRules(named: string | undefined): WatchRules {
  const path = named ?? RULES_DEFAULT;
  const text = readFile(path, named === undefined);
  return text === undefined ? { rules: [] } : parseRules(path, text);
}

function readFile(path: string, mayBeMissing: boolean): string | undefined {
  try {
    const bytes = readFileSync(path);
    if (bytes.length <= FILE_BYTES_MAX) return bytes.toString('utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && mayBeMissing) return undefined;
    throw new ConfigError(`the rules ${path} cannot be read: ${message}`);
  }
  throw new ConfigError(`the rules ${path} are larger than ${FILE_BYTES_MAX} bytes: is this the right file?`);
}

type Report = (entry: Pick<TomlEntry, 'place'>, message: string) => void;

export function parseRules(path: string, text: string): WatchRules {
  const { entries, problems: syntax } = readEntries(path, text);
  const problems: ConfigProblem[] = [...syntax];
  const report: Report = ({ place }, message) => void problems.push({ place, message });
  const tables = new Map<string, TomlEntry[]>();
  const hook: TomlEntry[] = [];
  for (const entry of entries) {
    const [first = '', second = ''] = entry.keys;
    if (first === 'rule' && /^\d+$/.test(second)) tables.set(second, [...(tables.get(second) ?? []), entry]);
    else if (first === 'webhook') hook.push(entry);
    else report(entry, describeUnknown(first));
  }
  const rules = [...tables.values()].slice(0, RULES_MAX).map((table) => buildRule(table, report));
  const webhook = hook.length > 0 ? buildWebhook(hook, report) : undefined;
  for (const [number, rule] of rules.entries())
    if (rule.name !== '' && rules.findIndex(({ name }) => name === rule.name) < number)
      report(
        tables.get(String(number))![0]!,
        `there is another rule ${JSON.stringify(rule.name)}: give this one a name of its own`,
      );
  const known = problems.map(({ place, message }) => `${showPlace(place)}: ${message}`);
  if (tables.size > RULES_MAX) known.push(`${path}: there are ${tables.size} rules, ${RULES_MAX} are the most`);
  if (known.length > 0) throw new ConfigError([...new Set(known)].join('\n'));
  return { rules, ...(webhook && { webhook }) };
}

function describeUnknown(key: string): string {
  if (key === 'rule') return 'rules are a list: write [[rule]] above the keys of each one';
  const nearest = findNearest(key, ['rule', 'webhook']);
  return `there is no ${key}${nearest ? `; did you mean ${nearest}?` : '; a file has [[rule]] and [webhook]'}`;
}

/** Converts a TOML value to a value of a rule or webhook; returns undefined if its type or format is wrong. */
type Convert<Value> = (value: TomlValue) => Value | undefined;

interface Key<Target> {
  expected: string;
  set: (target: Target, value: TomlValue) => boolean;
}

function key<Target, Value>(
  expected: string,
  convert: Convert<Value>,
  assign: (target: Target, value: Value) => void,
): Key<Target> {
  return {
    expected,
    set(target, given) {
      const value = convert(given);
      if (value !== undefined) assign(target, value);
      return value !== undefined;
    },
  };
}

const text: Convert<string> = (value) => (value.kind === 'text' && value.value !== '' ? value.value : undefined);

const texts: Convert<string[]> = (value) => {
  const items = value.kind === 'list' ? value.items.map((item) => text(item.value)) : [text(value)];
  return items.length > 0 && items.length <= SERVICES_MAX && !items.includes(undefined)
    ? (items as string[])
    : undefined;
};

const duration =
  (min: bigint, max: bigint): Convert<bigint> =>
  (value) => {
    const ns = value.kind === 'text' ? parseDuration(value.value) : undefined;
    return ns !== undefined && ns >= min && ns <= max ? ns : undefined;
  };

const rate: Convert<MatchRate> = (value) => {
  const [, digits, within = ''] = (value.kind === 'text' && /^(\d{1,4}) in (\S+)$/.exec(value.value)) || [];
  const count = Number(digits);
  const withinNs = parseDuration(within);
  const isGood =
    count >= 1 && count <= RATE_COUNT_MAX && withinNs !== undefined && withinNs > 0n && withinNs <= RATE_NS_MAX;
  return isGood ? { count, withinNs } : undefined;
};

const LONG = 2n ** 62n;
const A_DURATION = 'a duration with its unit in quotes, such as "500ms"';
const A_RATE = 'a count from 1 to 1000 and a time of at most a day, such as "5 in 1m"';

const RULE_KEYS: Readonly<Record<string, Key<Rule>>> = {
  name: key(
    'up to 64 letters, digits, ".", "_" and "-" in quotes',
    matching(RULE_NAME),
    (rule, name) => (rule.name = name),
  ),
  service: key('a text or a list of texts, such as ["shop"]', texts, (rule, names) => (rule.services = names)),
  'min-duration': key(A_DURATION, duration(0n, LONG), (rule, ns) => (rule.minDurationNs = ns)),
  'min-event-duration': key(A_DURATION, duration(0n, LONG), (rule, ns) => (rule.minEventNs = ns)),
  failed: key('true, or left out', isTrue, (rule) => (rule.failed = true)),
  error: key('names of errors, such as ["ENOSPC", "EIO"]', results, (rule, found) => (rule.results = found)),
  'at-least': key(A_RATE, rate, (rule, found) => (rule.atLeast = found)),
  'at-most': key(A_RATE, rate, (rule, found) => (rule.atMost = found)),
  'cool-down': key(
    `${A_DURATION}, and at most 7d`,
    duration(0n, COOL_DOWN_NS_MAX),
    (rule, ns) => (rule.coolDownNs = ns),
  ),
};

function matching(pattern: RegExp): Convert<string> {
  return (value) => (value.kind === 'text' && pattern.test(value.value) ? value.value : undefined);
}

function isTrue(value: TomlValue): true | undefined {
  return value.kind === 'boolean' && value.value ? true : undefined;
}

function results(value: TomlValue): bigint[] | undefined {
  const found = texts(value)?.map(parseErrorName);
  return found?.includes(undefined) ? undefined : found?.flatMap((numbers) => numbers!);
}

const WEBHOOK_KEYS: Readonly<Record<string, Key<Partial<Webhook>>>> = {
  url: key(
    'https://HOST/PATH or http://HOST/PATH, without a user and a password',
    webhookUrl,
    (hook, url) => (hook.url = url),
  ),
  'secret-file': key('the path of a file in quotes', text, (hook, path) => (hook.secretFile = path)),
  'ca-file': key('the path of a file in quotes', text, (hook, path) => (hook.caFile = path)),
  timeout: key(
    `${A_DURATION}, from 100ms to 60s`,
    duration(100_000_000n, BigInt(TIMEOUT_MS_MAX) * 1_000_000n),
    (hook, ns) => (hook.timeoutMs = Number(ns / 1_000_000n)),
  ),
};

function webhookUrl(value: TomlValue): URL | undefined {
  const url = value.kind === 'text' ? URL.parse(value.value) : null;
  const isGood = url && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '' && url.hash === '';
  return isGood ? url : undefined;
}

function assignKeys<Target>(
  target: Target,
  entries: readonly TomlEntry[],
  depth: number,
  keys: Readonly<Record<string, Key<Target>>>,
  report: Report,
): void {
  const seen = new Set<string>();
  for (const entry of entries.filter(({ keys: path }) => path.length > depth)) {
    const name = entry.keys.slice(depth).join('.');
    const known = Object.hasOwn(keys, name) ? keys[name] : undefined;
    const nearest = findNearest(name, Object.keys(keys));
    if (seen.has(name)) report(entry, `${name} is given twice`);
    else if (!known)
      report(
        entry,
        `there is no ${name} here; ${nearest ? `did you mean ${nearest}?` : `known are ${Object.keys(keys).join(', ')}`}`,
      );
    else if (!entry.value || !known.set(target, entry.value))
      report({ place: entry.valuePlace }, `${name} must be ${known.expected}`);
    seen.add(name);
  }
}

function buildRule(entries: readonly TomlEntry[], report: Report): Rule {
  const rule: Rule = { name: '', coolDownNs: 0n };
  assignKeys(rule, entries, 2, RULE_KEYS, report);
  const [table] = entries;
  const has = (name: string) => entries.some(({ keys }) => keys[2] === name);
  if (!has('name')) report(table!, 'the rule needs a name');
  if (!['service', 'min-duration', 'min-event-duration', 'failed', 'error'].some(has))
    report(table!, 'the rule has no condition: give service, min-duration, min-event-duration, failed or error');
  return rule;
}

function buildWebhook(entries: readonly TomlEntry[], report: Report): Webhook {
  const hook: Partial<Webhook> = { timeoutMs: TIMEOUT_MS_DEFAULT };
  assignKeys(hook, entries, 1, WEBHOOK_KEYS, report);
  if (!entries.some(({ keys }) => keys[1] === 'url')) report(entries[0]!, 'the webhook needs a url');
  return hook as Webhook;
}

/** Whether a rule has a condition that a single event must meet. */
export function hasEventCondition({ minEventNs, failed, results }: Rule): boolean {
  return minEventNs !== undefined || failed === true || results !== undefined;
}
