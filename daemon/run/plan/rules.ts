/**
 * Parses the rules of `--inject` and `--fail`, such as
 *
 *   sys_write:service=db:extra=10ms          each of these calls takes this much longer
 *   sys_write:path=/data/*.log:factor=3      three times as long, before extra is added
 *   sys_write:ENOSPC:nth=3                   the third of these calls is not made and returns the error
 *   sys_sync:EIO                             every sync fails
 *
 * Colons separate the parts of a rule; a backslash makes the next character literal.
 */
import { constants } from 'node:os';
import { EVENT_TYPES, type EventType } from '../../../bpf/schema/index.ts';
import { parseDuration } from '../../base/duration.ts';
import { EVENT_FLAGS, OPS } from '../format/plan_file.ts';
import type { IncidentStream } from './incident.ts';

/**
 * The part of a rule that chooses calls. All fields in `matches` must match a call; `*` in a pattern matches any text.
 */
interface Choice {
  eventType: EventType;
  matches: readonly { field: MatchField; pattern: RegExp; text: string }[];
}

export interface InjectRule extends Choice {
  extraNs: number;
  factor: number;
}

export interface FailRule extends Choice {
  errno: number;
  /** Which of the matching calls fails, counted from 1; undefined if all of them fail. */
  nth: number | undefined;
}

const MATCH_FIELDS = ['service', 'comm', 'path', 'syscall'] as const;
type MatchField = (typeof MATCH_FIELDS)[number];

const ANY_TYPE = new Intl.ListFormat('en', { type: 'disjunction' }).format(EVENT_TYPES);
const EXTRA_NS_MAX = 3_600_000_000_000n;
const FACTOR_MAX = 1000;

/** The error for an invalid rule. Its message begins with "must". */
export class RuleError extends Error {
  override readonly name = 'RuleError';
}

export function parseInjectRule(text: string): InjectRule {
  const { choice, rest } = parseChoice(text);
  const { extra, factor, ...others } = parseValues(rest);
  refuseOthers(others, 'extra, factor');
  if (extra === undefined && factor === undefined)
    throw new RuleError('must say what to do: extra=10ms, or factor=2, between colons');
  return { ...choice, extraNs: extra === undefined ? 0 : parseExtraNs(extra), factor: parseFactor(factor ?? '1') };
}

export function parseFailRule(text: string): FailRule {
  const { choice, rest } = parseChoice(text);
  const names = rest.filter((part) => !part.includes('='));
  const { nth, ...others } = parseValues(rest.filter((part) => part.includes('=')));
  refuseOthers(others, 'nth');
  if (names.length !== 1) throw new RuleError('must name one error, such as sys_write:ENOSPC');
  if (nth !== undefined && !/^[1-9]\d{0,8}$/.test(nth)) throw new RuleError(`must have nth=1 or more, not ${nth}`);
  return { ...choice, errno: parseErrno(names[0]!), nth: nth === undefined ? undefined : Number(nth) };
}

/**
 * Returns whether a rule applies to the calls of a stream. A rule for syncs also applies to syncs that were derived
 * from block requests.
 */
export function isChosen({ eventType, matches }: Choice, stream: IncidentStream): boolean {
  if (OPS[stream.op] >= OPS.fsync !== (eventType !== 'sys_write')) return false;
  return matches.every(({ field, pattern }) => pattern.test(field === 'syscall' ? stream.op : stream[field]));
}

/** Returns the path patterns of a rule in the syntax of fnmatch(3). */
export function listPathPatterns({ matches }: Pick<Choice, 'matches'>): string[] {
  return matches
    .filter(({ field }) => field === 'path')
    .map(({ text }) => text.replace(/\\.|[?[]|\\$/gsu, (piece) => (piece.length > 1 ? piece : `\\${piece}`)));
}

/** Returns the EVENT_FLAGS that restrict an event to the calls that the rule matches. */
export function computeLimits(matches: Choice['matches']): number {
  const hasMatch = (...fields: MatchField[]) => matches.some(({ field }) => fields.includes(field));
  return (
    (hasMatch('path') ? EVENT_FLAGS.ruled_by_path : 0) | (hasMatch('comm', 'service') ? EVENT_FLAGS.ruled_by_thread : 0)
  );
}

/**
 * Returns the EVENT_FLAGS of an event with an error or a short write. If the rule names a system call, the flags
 * restrict the event to that system call.
 */
export function computeFaultLimits(matches: Choice['matches']): number {
  return computeLimits(matches) | (matches.some(({ field }) => field === 'syscall') ? EVENT_FLAGS.own_call : 0);
}

function parseChoice(text: string): { choice: Choice; rest: string[] } {
  const [first = '', ...parts] = splitParts(text);
  const eventType = EVENT_TYPES.find((type) => type === first);
  if (!eventType) throw new RuleError(`must begin with ${ANY_TYPE}, not ${first || 'nothing'}`);
  if (parts.includes('')) throw new RuleError('must not have empty parts between its colons');
  const findMatchField = (part: string) => MATCH_FIELDS.find((field) => part.startsWith(`${field}=`));
  const matches = parts.flatMap((part) => {
    const field = findMatchField(part);
    const text = part.slice((field?.length ?? 0) + 1);
    return field ? [{ field, pattern: parseTextPattern(text), text }] : [];
  });
  return { choice: { eventType, matches }, rest: parts.filter((part) => !findMatchField(part)) };
}

/** Splits a rule at unescaped colons. Removes the backslash of an escaped colon and keeps all other backslashes. */
function splitParts(text: string): string[] {
  const parts = [''];
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (character === '\\' && at + 1 < text.length) {
      const next = text[++at]!;
      parts[parts.length - 1] += next === ':' ? ':' : character + next;
    } else if (character === ':') parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts;
}

function parseTextPattern(value: string): RegExp {
  if (value === '') throw new RuleError('must not compare with an empty text');
  const source = value.replace(/\\?./gsu, (piece) => {
    if (piece === '*') return '.*';
    const character = piece.length > 1 && piece.startsWith('\\') ? piece.slice(1) : piece;
    return character.replace(/[\\^$.*+?()[\]{}|/]/, '\\$&');
  });
  return new RegExp(`^${source}$`, 'su');
}

function parseValues(parts: readonly string[]): Record<string, string> {
  const values: Record<string, string> = {};
  for (const part of parts) {
    const [, name, value] = /^([a-z_]+)=(.+)$/s.exec(part) ?? [];
    if (name === undefined || value === undefined) throw new RuleError(`must have NAME=VALUE, not ${part}`);
    if (Object.hasOwn(values, name)) throw new RuleError(`must not have ${name} twice`);
    values[name] = value;
  }
  return values;
}

function refuseOthers(others: Record<string, string>, allowed: string): void {
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new RuleError(`must not have ${other}; there are ${MATCH_FIELDS.join(', ')}, ${allowed}`);
}

function parseExtraNs(value: string): number {
  const ns = parseDuration(value);
  if (ns === undefined || ns > EXTRA_NS_MAX)
    throw new RuleError('must have a duration with its unit for extra, such as 50us or 10ms, and at most 1h');
  return Number(ns);
}

function parseFactor(value: string): number {
  const factor = /^\d{1,9}(\.\d{1,9})?$/.test(value) ? Number(value) : Number.NaN;
  if (!(factor <= FACTOR_MAX)) throw new RuleError(`must have a factor from 0 to ${FACTOR_MAX}, not ${value}`);
  return factor;
}

function parseErrno(name: string): number {
  const known: Record<string, number> = constants.errno;
  if (!Object.hasOwn(known, name)) throw new RuleError(`must name an error such as ENOSPC or EIO, not ${name}`);
  return known[name]!;
}
