/** Filters as a user types them: `service:shop -device:vda file:"/srv/a b/*" from:-15m has_error:true`. */
import { parseTime, resolveTime, TIME_FORMATS } from '../../base/time.ts';
import { addFilterValue } from './filters.ts';
import { FILTERED, type Link } from './link.ts';

export interface TypedFilters {
  change: Partial<Link>;
  /** Descriptions of the parts that were not understood; if there are problems, `change` is empty. */
  problems: string[];
}

/** A word consists of a name, a colon and a value, which is in double quotes if it contains spaces. */
const WORD = /(-?)([a-z_]+):("(?:[^"\\]|\\.)*"|\S*)/y;
const SPACES = /\s*/y;

/** Reads typed filters as a change of a link; `from:-15m` is counted back from `nowNs`. */
export function readFilters(text: string, link: Link, nowNs: bigint): TypedFilters {
  const problems: string[] = [];
  let changed = link;
  let change: Partial<Link> = {};
  const take = (more: Partial<Link>) => {
    change = { ...change, ...more };
    changed = { ...changed, ...more };
  };
  for (let at = skipSpaces(text, 0); at < text.length; at = skipSpaces(text, at)) {
    WORD.lastIndex = at;
    const [whole, minus, name, quoted] = WORD.exec(text) ?? [];
    if (whole === undefined) {
      const word = text.slice(at).split(/\s/, 1)[0]!;
      problems.push(`${word}: must be name:value, such as service:shop`);
      at += word.length;
      continue;
    }
    at += whole.length;
    const taken = parseFilterChange(changed, name!, unquote(quoted!), minus === '-', nowNs);
    if (typeof taken === 'string') problems.push(`${name}: ${taken}`);
    else take(taken);
  }
  const { from, to } = changed;
  if (from !== null && to !== null && from >= to) problems.push('from: must be earlier than to');
  return problems.length > 0 ? { change: {}, problems } : { change, problems };
}

const KEPT_ONLY = ['from', 'to', 'has_error'];

function parseFilterChange(
  link: Link,
  name: string,
  value: string,
  isExcluded: boolean,
  nowNs: bigint,
): Partial<Link> | string {
  const filtered = FILTERED.find((one) => name === one || name === `exclude_${one}`);
  if (filtered) {
    if (value === '') return 'has no value';
    return addFilterValue(link, filtered, value, isExcluded !== (name !== filtered));
  }
  if (isExcluded && KEPT_ONLY.includes(name)) return 'cannot be excluded';
  if (name === 'from' || name === 'to') {
    const time = parseTime(value);
    return time ? { [name]: resolveTime(time, nowNs) } : TIME_FORMATS;
  }
  if (name !== 'has_error') return `is not known; known are ${[...FILTERED, 'from', 'to', 'has_error'].join(', ')}`;
  return value === 'true' || value === 'false' ? { has_error: value === 'true' } : 'must be true or false';
}

/** Formats a filter as a user would type it. */
export function filterText(name: string, value: string): string {
  const typed = /^[^\s"\\]+$/.test(value) ? value : `"${value.replace(/["\\]/g, '\\$&')}"`;
  return name.startsWith('exclude_') ? `-${name.slice('exclude_'.length)}:${typed}` : `${name}:${typed}`;
}

function unquote(text: string): string {
  return text.startsWith('"') && text.length > 1 && text.endsWith('"')
    ? text.slice(1, -1).replace(/\\(.)/gs, '$1')
    : text;
}

function skipSpaces(text: string, from: number): number {
  SPACES.lastIndex = from;
  SPACES.exec(text);
  return SPACES.lastIndex;
}
