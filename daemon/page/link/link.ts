/** The state of the page as it stands in the address: a link shows another person the same. */

export const VIEWS = ['overview', 'lanes', 'health'] as const;
export type ViewName = (typeof VIEWS)[number];

export interface Link {
  view: ViewName;
  transaction: string | null;
  /** Filters of the API, by the names of its parameters. */
  service: string | null;
  node: string | null;
  has_error: boolean;
  /** Half-open window, nanoseconds since the epoch. */
  from: bigint | null;
  to: bigint | null;
  /** The selected event. */
  event: string | null;
  /** The replay session that is shown. */
  session: string | null;
  /** Whether the table takes the place of the picture. */
  table: boolean;
}

export const EMPTY_LINK: Link = {
  view: 'overview',
  transaction: null,
  service: null,
  node: null,
  has_error: false,
  from: null,
  to: null,
  event: null,
  session: null,
  table: false,
};

const VERSION = '1';
const TEXT_MAX = 1024;
const INT64_MAX = 2n ** 63n - 1n;

const isView = (text: string): text is ViewName => (VIEWS as readonly string[]).includes(text);

const TEXTS = ['transaction', 'service', 'node', 'event', 'session'] as const;
const TIMES = ['from', 'to'] as const;
const FLAGS = ['has_error', 'table'] as const;

export interface ParsedLink {
  link: Link;
  /** What was not understood, in words; the rest was applied. */
  problems: string[];
}

/** Reads the part of an address after `#`. */
export function parseLink(hash: string): ParsedLink {
  const link: Link = { ...EMPTY_LINK };
  const problems: string[] = [];
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  for (const [name, text] of given) {
    const problem = given.getAll(name).length > 1 ? 'is given more than once' : takeField(link, name, text);
    if (problem !== null) problems.push(`${shortened(name)}: ${problem}`);
  }
  if (link.from !== null && link.to !== null && link.from >= link.to) {
    problems.push('from: must be earlier than to');
    link.from = null;
    link.to = null;
  }
  if (link.view === 'lanes' && link.transaction === null) {
    problems.push('transaction: is missing, and the lanes are those of one');
    link.view = 'overview';
  }
  return { link, problems: [...new Set(problems)] };
}

/** Returns what is wrong with a field, or null when the link has it now. */
function takeField(link: Link, name: string, text: string): string | null {
  if (name === 'v') return text === VERSION ? null : `the link is of version ${shortened(text)}, not ${VERSION}`;
  if (name === 'view') {
    if (!isView(text)) return `there is no view ${shortened(text)}`;
    link.view = text;
  } else if (isIn(TEXTS, name)) {
    if (text.length > TEXT_MAX) return 'is too long';
    link[name] = text || null;
  } else if (isIn(FLAGS, name)) {
    if (text !== '1') return 'must be 1';
    link[name] = true;
  } else if (isIn(TIMES, name)) {
    const time = timeIn(text);
    if (time === null) return 'must be nanoseconds since the epoch, as digits';
    link[name] = time;
  } else return 'is not known';
  return null;
}

/** Writes a link as the part of an address after `#`; what is as in a new page is left out. */
export function formatLink(link: Link): string {
  const written = new URLSearchParams({ v: VERSION });
  if (link.view !== EMPTY_LINK.view) written.set('view', link.view);
  for (const name of TEXTS) if (link[name] !== null) written.set(name, link[name]);
  for (const name of TIMES) if (link[name] !== null) written.set(name, link[name].toString());
  for (const name of FLAGS) if (link[name]) written.set(name, '1');
  return written.size === 1 ? '' : `#${written}`;
}

function isIn<Name extends string>(names: readonly Name[], name: string): name is Name {
  return (names as readonly string[]).includes(name);
}

function timeIn(text: string): bigint | null {
  if (!/^\d{1,19}$/.test(text)) return null;
  const time = BigInt(text);
  return time <= INT64_MAX ? time : null;
}

function shortened(text: string): string {
  return text.length <= 40 ? text : `${text.slice(0, 39)}…`;
}
