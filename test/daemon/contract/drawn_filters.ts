/** Filters by value, drawn at random, and what they mean for a plain event. */
import fc from 'fast-check';

/** An event of an answer, parsed. */
// biome-ignore lint/suspicious/noExplicitAny: each type of event has fields of its own
export type PlainEvent = any;

export const NAMES = ['a', 'b', 'a,b', 'a*', '*', '__proto__', 'constructor', '%', "'; --", 'ü b'];
export const FILES = [
  ...['/var/lib/pg/1', '/var/lib/pg/wal/1', '/var/lib/pg', '/var/lib/pgx/1', '/x,y', '/x', '/a*', '/a', '/A'],
  ...['*', '%', '__proto__', 'socket:[1]'],
];

/** Values that a filter may have, and what an event has for it. */
const FIELDS: Record<string, { drawn: readonly string[]; has: (event: PlainEvent, value: string) => boolean }> = {
  service: {
    drawn: [...NAMES, 'not there'],
    has: ({ service_name, origins = [] }, value) =>
      [service_name, ...origins.map((origin: PlainEvent) => origin.service_name)].includes(value),
  },
  node: { drawn: ['node-a', 'node-b', 'not-there'], has: ({ node }, value) => node === value },
  event_type: {
    drawn: ['sys_write', 'sys_sync', 'block_io'],
    has: ({ event_type }, value) => event_type === value,
  },
  operation: { drawn: ['read', 'write', 'flush', 'discard'], has: ({ operation }, value) => operation === value },
  syscall: { drawn: ['write', 'pwrite64', 'fsync', 'sync'], has: ({ syscall }, value) => syscall === value },
  device: { drawn: [...NAMES, 'not there'], has: ({ device }, value) => device === value },
  comm: { drawn: [...NAMES, 'not there'], has: ({ comm }, value) => comm === value },
  file: {
    drawn: [
      ...FILES,
      '/var/lib/pg/*',
      '/var/*',
      '/x*',
      'not there',
      'not there*',
      '/',
      '/var/lib/pg/',
      '/var/lib/',
      '/a\\*',
    ],
    has: ({ file }, value) => file !== null && file !== undefined && isOfPattern(file, value),
  },
  error: { drawn: ['EIO', 'ENOSPC', 'EINTR', 'EPERM', 'errno 4000'], has: ({ error }, value) => error === value },
};

function isOfPattern(file: string, pattern: string): boolean {
  if (pattern.endsWith('\\*')) return file === `${pattern.slice(0, -2)}*`;
  if (pattern.endsWith('*')) return file.startsWith(pattern.slice(0, -1));
  if (!pattern.endsWith('/')) return file === pattern;
  return file.startsWith(pattern) && !file.slice(pattern.length).includes('/');
}

/** A filter: the values for each parameter. */
export type DrawnFilter = Record<string, string[]>;

export const PARAMETERS = Object.keys(FIELDS).flatMap((name) => [name, `exclude_${name}`]);

const fieldOf = (parameter: string) => FIELDS[parameter.replace('exclude_', '')]!;

export const listOf = (parameter: string): fc.Arbitrary<string[]> =>
  fc.uniqueArray(fc.constantFrom(...fieldOf(parameter).drawn), { minLength: 1, maxLength: 4 });

export const drawnFilter: fc.Arbitrary<DrawnFilter> = fc
  .uniqueArray(fc.constantFrom(...PARAMETERS), { minLength: 1, maxLength: 4 })
  .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, listOf(name)]))));

const has = (event: PlainEvent, name: string, list: readonly string[]) =>
  list.some((value) => fieldOf(name).has(event, value));

export function isSelected(event: PlainEvent, filter: DrawnFilter): boolean {
  return Object.entries(filter).every(([name, list]) => has(event, name, list) !== name.startsWith('exclude_'));
}

/** Whether some event has what each parameter includes, and none has what one excludes. */
export function areSelected(events: readonly PlainEvent[], filter: DrawnFilter): boolean {
  return Object.entries(filter).every(
    ([name, list]) => events.some((event) => has(event, name, list)) !== name.startsWith('exclude_'),
  );
}

/** Each value in a parameter of its own. */
export function queryOf(filter: DrawnFilter): string {
  return Object.entries(filter)
    .flatMap(([name, list]) => list.map((value) => `${name}=${encodeURIComponent(value.replaceAll(',', '\\,'))}`))
    .join('&');
}
