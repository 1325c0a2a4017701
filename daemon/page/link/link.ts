/** The state of the page as it is stored in the address; a link therefore shows another person the same page. */

import { I64_MAX } from '../../base/bigints.ts';
import { groupDigits } from '../../model/wording/exact_times.ts';

export const VIEWS = ['overview', 'lanes', 'live', 'compare', 'health'] as const;
export type ViewName = (typeof VIEWS)[number];

/** Names of the daemon's filter parameters. Each name also exists with `exclude_` in front, for values to exclude. */
export const FILTERED = [
  ...(['service', 'node', 'event_type', 'operation', 'syscall', 'device', 'comm', 'file', 'error'] as const),
] as const;
export type Filtered = (typeof FILTERED)[number];

type Filters = { [Name in Filtered | `exclude_${Filtered}`]: readonly string[] };

export interface Link extends Filters {
  view: ViewName;
  transaction: string | null;
  /** Trace id of 32 hexadecimal digits: links from other tools name a trace. */
  trace: string | null;
  /** Half-open window, in nanoseconds since the epoch. */
  from: bigint | null;
  to: bigint | null;
  has_error: boolean;
  /**
   * Whether the map and the comparison show transactions or events; null shows transactions, or events if no
   * transaction is recorded.
   */
  of: (typeof KINDS)[number] | null;
  /**
   * The selected box of the map: its times, its durations in nanoseconds, and whether it selects only failed entries.
   */
  box_from: bigint | null;
  box_to: bigint | null;
  box_min: bigint | null;
  box_max: bigint | null;
  box_failed: boolean;
  /** The time span of the lanes that is in view. */
  zoom_from: bigint | null;
  zoom_to: bigint | null;
  /** The selected event. */
  event: string | null;
  /** The what-if: extra nanoseconds for each call, the deadline of the caller, and the events that get the latency. */
  latency: bigint | null;
  timeout: bigint | null;
  only_event_type: readonly string[];
  only_service: readonly string[];
  only_node: readonly string[];
  /** Entries of the form `node:nanoseconds`: the signed nanoseconds are added to the times of the node. */
  clock_offset: readonly string[];
  /** The replay session that is shown, and the settings for creating it again if it no longer exists. */
  session: string | null;
  speed: number | null;
  position: bigint | null;
  max_gap: bigint | null;
  /** The other side of a comparison: a transaction or a window. */
  other: string | null;
  other_from: bigint | null;
  other_to: bigint | null;
  /** Whether the table is shown in place of the picture. */
  table: boolean;
}

const TEXTS = ['transaction', 'trace', 'event', 'session', 'other'] as const;
const LISTS = [
  ...FILTERED,
  ...FILTERED.map((name) => `exclude_${name}` as const),
  ...(['only_event_type', 'only_service', 'only_node', 'clock_offset'] as const),
] as const;
const TIMES = [
  ...(['from', 'to', 'box_from', 'box_to', 'zoom_from', 'zoom_to', 'other_from', 'other_to'] as const),
] as const;
const DURATIONS = ['box_min', 'box_max', 'latency', 'timeout', 'position', 'max_gap'] as const;
const FLAGS = ['has_error', 'box_failed', 'table'] as const;

const fillFields = <Name extends string, Value>(names: readonly Name[], value: Value) =>
  Object.fromEntries(names.map((name) => [name, value])) as { [Each in Name]: Value };

/**
 * Builds a change of the link to another view; the event and the session are cleared, because they belong to the
 * previous view.
 */
export const buildViewChange = (view: ViewName) => ({ view, session: null, event: null });

/** Applies a change; `isOther` says whether the changed link names another view, transaction or trace. */
export function applyChange(link: Link, change: Partial<Link>): { link: Link; isOther: boolean } {
  const { view, transaction, trace } = { ...link, ...change };
  const isOther = view !== link.view || transaction !== link.transaction || trace !== link.trace;
  // The zoom and the position are times of the previous picture, so they are cleared.
  const left = isOther && { zoom_from: null, zoom_to: null, position: null };
  return { link: { ...link, ...left, ...change }, isOther };
}

export const EMPTY_LINK: Link = {
  view: 'overview',
  of: null,
  speed: null,
  ...fillFields(TEXTS, null),
  ...fillFields<(typeof LISTS)[number], readonly string[]>(LISTS, []),
  ...fillFields(TIMES, null),
  ...fillFields(DURATIONS, null),
  ...fillFields(FLAGS, false),
};

/** Pairs of fields. Of two times, the first must be earlier; of two durations, the first must not be longer. */
const ORDERED = [
  ['from', 'to'],
  ['box_from', 'box_to'],
  ['zoom_from', 'zoom_to'],
  ['other_from', 'other_to'],
  ['box_min', 'box_max'],
] as const;

const KINDS = ['transactions', 'events'] as const;
const VERSION = '1';
const TEXT_MAX = 1024;
/** Maximum number of values in one list. */
const LIST_MAX = 50;
const INT64_MAX = I64_MAX;
/** Limits of the daemon's API. */
const SPEED_MIN = 0.001;
const SPEED_MAX = 1000;
const RANGES: ReadonlyMap<string, readonly [least: bigint, most: bigint]> = new Map([
  ['latency', [0n, 3_600_000_000_000n]],
  ['timeout', [1n, INT64_MAX]],
  ['max_gap', [0n, 2n ** 53n - 1n]],
]);
/** Maximum number of problems of a link that are listed. */
const PROBLEMS_MAX = 5;

export interface ParsedLink {
  link: Link;
  /** Descriptions of the parts that were not understood; the other parts were applied. */
  problems: string[];
}

/** Reads the part of an address after `#`. */
export function parseLink(hash: string): ParsedLink {
  const link: Link = { ...EMPTY_LINK };
  const problems: string[] = [];
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  // Links from other tools contain only the trace id, so a trace without a view opens the lanes.
  if (given.has('trace')) link.view = 'lanes';
  for (const name of new Set(given.keys())) {
    const texts = given.getAll(name);
    const problem = contains(LISTS, name) ? takeList(link, name, texts) : takeOne(link, name, texts);
    if (problem !== null) problems.push(`${shortenText(name)}: ${problem}`);
  }
  if (given.has('trace') && link.trace === null && !given.has('view')) link.view = EMPTY_LINK.view;
  problems.push(...dropContradictions(link));
  return { link, problems };
}

export function formatProblems(problems: readonly string[]): string {
  const more = problems.length - PROBLEMS_MAX;
  return [...problems.slice(0, PROBLEMS_MAX), ...(more > 0 ? [`and ${groupDigits(more)} more`] : [])].join('; ');
}

/** Drops fields that contradict each other, and returns descriptions of the problems. */
function dropContradictions(link: Link): string[] {
  const problems: string[] = [];
  for (const [least, most] of ORDERED) {
    const a = link[least];
    const b = link[most];
    const isDuration = least === 'box_min';
    if (a === null || b === null || a < b || (isDuration && a === b)) continue;
    problems.push(`${least}: must be ${isDuration ? 'no longer' : 'earlier'} than ${most}`);
    link[least] = null;
    link[most] = null;
  }
  if (link.view === 'lanes' && link.transaction === null && link.trace === null) {
    problems.push('transaction: is missing, and the lanes are those of one, or of a trace');
    link.view = 'overview';
  }
  return problems;
}

/** Sets a field of the link. Returns a description of the problem, or null if the field was set. */
function takeOne(link: Link, name: string, [text, ...more]: readonly string[]): string | null {
  if (more.length > 0) return 'is given more than once';
  if (name === 'v') return text === VERSION ? null : `the link is of version ${shortenText(text!)}, not ${VERSION}`;
  if (contains(TEXTS, name)) return takeText(link, name, text!);
  if (contains(FLAGS, name)) {
    if (text !== '1') return 'must be 1';
    link[name] = true;
  } else if (contains(TIMES, name) || contains(DURATIONS, name)) {
    const ns = parseNanoseconds(text!);
    if (ns === null) return `must be nanoseconds${contains(TIMES, name) ? ' since the epoch' : ''}, as digits`;
    const [least, most] = RANGES.get(name) ?? [0n, INT64_MAX];
    if (ns < least || ns > most) return `must be from ${least} to ${most}`;
    link[name] = ns;
  } else return takeChoice(link, name, text!);
  return null;
}

/** Pattern of a session id. It is strict, because the id becomes part of a path in requests that carry the token. */
const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function takeText(link: Link, name: (typeof TEXTS)[number], text: string): string | null {
  if (text.length > TEXT_MAX) return 'is too long';
  if (name === 'trace' && text !== '' && !/^[0-9a-f]{32}$/i.test(text)) return 'must be 32 hexadecimal digits';
  if (name === 'session' && text !== '' && !SESSION_ID.test(text)) return 'is not the id of a session';
  // Trace ids in recordings are in lower case, as in W3C Trace Context; other tools also show capitals.
  link[name] = (name === 'trace' ? text.toLowerCase() : text) || null;
  return null;
}

function takeChoice(link: Link, name: string, text: string): string | null {
  if (name === 'view') {
    if (!contains(VIEWS, text)) return `there is no view ${shortenText(text)}`;
    link.view = text;
  } else if (name === 'of') {
    if (!contains(KINDS, text)) return 'must be transactions or events';
    link.of = text;
  } else if (name === 'speed') {
    const speed = /^\d{1,4}(\.\d{1,6})?$/.test(text) ? Number(text) : 0;
    if (speed < SPEED_MIN || speed > SPEED_MAX) return `must be from ${SPEED_MIN} to ${SPEED_MAX}`;
    link.speed = speed;
  } else return 'is not known';
  return null;
}

function takeList(link: Link, name: (typeof LISTS)[number], texts: readonly string[]): string | null {
  if (texts.length > LIST_MAX) return `has more than ${LIST_MAX} values`;
  if (texts.some((text) => text.length > TEXT_MAX)) return 'is too long';
  link[name] = [...new Set(texts.filter((text) => text !== ''))];
  return null;
}

/** Formats a link as the part of an address after `#`. Fields with their default value are left out. */
export function formatLink(link: Link): string {
  const written = new URLSearchParams({ v: VERSION });
  if (link.view !== (link.trace === null ? EMPTY_LINK.view : 'lanes')) written.set('view', link.view);
  for (const name of TEXTS) if (link[name] !== null) written.set(name, link[name]);
  for (const name of LISTS) for (const value of link[name]) written.append(name, value);
  for (const name of [...TIMES, ...DURATIONS]) if (link[name] !== null) written.set(name, link[name].toString());
  for (const name of FLAGS) if (link[name]) written.set(name, '1');
  if (link.of !== null) written.set('of', link.of);
  if (link.speed !== null) written.set('speed', link.speed.toString());
  return written.size === 1 ? '' : `#${written}`;
}

function contains<Name extends string>(names: readonly Name[], name: string): name is Name {
  return (names as readonly string[]).includes(name);
}

function parseNanoseconds(text: string): bigint | null {
  if (!/^\d{1,19}$/.test(text)) return null;
  const ns = BigInt(text);
  return ns <= INT64_MAX ? ns : null;
}

function shortenText(text: string): string {
  return text.length <= 40 ? text : `${text.slice(0, 39)}…`;
}
