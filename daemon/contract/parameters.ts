/**
 * Kinds of query parameters. Each kind is parsed from text here, with an error message that describes the accepted
 * values.
 */

import { z } from 'zod';
import { EVENT_TYPES, EVENTS, type EventType } from '../../bpf/schema/index.ts';
import { I64_MAX } from '../base/bigints.ts';
import { parseMilliseconds } from '../base/duration.ts';
import { listPossibleNames, parseListItems } from '../base/list_text.ts';
import { parseTime, timeMessage } from '../base/time.ts';
import { ERROR_NAMES, parseErrorName } from '../store/blocks/errno.ts';
import { selectFields } from '../store/blocks/named_fields.ts';
import { documented } from './documented.ts';

export const noParameters = z.strictObject({});

const U32_MAX = 2 ** 32 - 1;
const DURATION_NS_MAX = I64_MAX;

/**
 * A text that must be given once and not be empty: `service=` is a mistake, and treating it as no filter would widen
 * the query.
 */
export const text = z
  .string({ error: ({ input }) => (Array.isArray(input) ? 'must be given once' : undefined) })
  .min(1, 'must not be empty');

const buildListSchema = (item: Readonly<Record<string, unknown>>) => ({
  type: 'array',
  items: { type: 'string', ...item },
});

const severalTexts = z.union([z.string(), z.array(z.string())]).transform((values) => [values].flat());
const noneEmpty = z.array(z.string().min(1, 'must not be empty'));

/** A list of words: repeated parameters, or words separated by commas and optional spaces. */
export const texts = documented(
  severalTexts.transform((values) => values.flatMap(parseListItems).map((item) => item.trim())).pipe(noneEmpty),
  buildListSchema({ minLength: 1 }),
);

/** Maximum number of names: each name is looked up in each recording, and a live tail repeats this at every search. */
export const NAMES_MAX = 1000;
/** Maximum number of files: all recorded paths are searched for each file. */
export const FILES_MAX = 64;
export const TOO_MANY_NAMES = `must have at most ${NAMES_MAX} values: ask for fewer at a time`;
export const TOO_MANY_FILES = `must have at most ${FILES_MAX} values: give patterns, such as /srv/db/*, for many files`;

function buildNamesSchema(listNames: (value: string) => readonly string[], max = NAMES_MAX, message = TOO_MANY_NAMES) {
  const few = severalTexts.refine((values) => values.flatMap(parseListItems).length <= max, message);
  const known = few.transform((values) => [...new Set(values.flatMap(listNames))]).pipe(noneEmpty);
  return documented(known, buildListSchema({ minLength: 1 }));
}

/** Like `texts`, for names that may contain any characters. */
export const names = buildNamesSchema(listPossibleNames);

/** Paths, and patterns of paths. */
export const files = buildNamesSchema(listPossibleNames, FILES_MAX, TOO_MANY_FILES);

/**
 * Names of hosts. Unlike other lists of names, a list of hosts contains only its items, because an answer's coverage
 * names each requested host, even a host without events. Items are trimmed, unless there is only one.
 */
export const hosts = buildNamesSchema((value) => {
  const items = parseListItems(value);
  return items.length === 1 ? items : items.map((item) => item.trim());
});

/**
 * Builds the schema of a text that is parsed. `parse` returns undefined for text that it does not accept; `described`
 * is the JSON schema of the text.
 */
export function parsed<T>(
  parse: (value: string) => T | undefined,
  message: string | ((value: string) => string),
  described: Readonly<Record<string, unknown>> = { type: 'string', minLength: 1 },
) {
  const schema = text.transform((value, context) => {
    const result = parse(value);
    if (result !== undefined) return result;
    const said = typeof message === 'string' ? message : message(value);
    context.issues.push({ code: 'custom', message: said, input: value });
    return z.NEVER;
  });
  return documented(schema, described);
}

/** The JSON schema of a point in time. */
export const TIME_JSON = {
  anyOf: [
    { type: 'string', format: 'date-time', description: 'up to nine fractional digits' },
    { type: 'integer', format: 'int64', description: 'nanoseconds since the epoch' },
    { type: 'string', pattern: '^-(\\d+(\\.\\d+)?(ns|us|µs|ms|s|m|h|d))+$', description: 'back from now' },
  ],
};

export const time = parsed(parseTime, timeMessage, TIME_JSON);

export const milliseconds = parsed(
  (value) => {
    const ns = parseMilliseconds(value);
    return ns !== undefined && ns <= DURATION_NS_MAX ? ns : undefined;
  },
  'must be decimal milliseconds, such as 0.05, and whole nanoseconds',
  { type: 'number', minimum: 0 },
);

export function integer(min: number, max: number) {
  return parsed(
    (value) => {
      const number = /^\d{1,10}$/.test(value) ? Number(value) : undefined;
      return number !== undefined && number >= min && number <= max ? number : undefined;
    },
    `must be an integer from ${min} to ${max}`,
    { type: 'integer', minimum: min, maximum: max },
  );
}

export const processId = integer(0, U32_MAX);

export const boolean = parsed(
  (value) => (value === 'true' ? true : value === 'false' ? false : undefined),
  'must be true or false',
  { type: 'boolean' },
);

export const traceId = parsed(
  (value) => (/^[0-9a-f]{32}$/i.test(value) ? value.toLowerCase() : undefined),
  'must be 32 hex digits',
  { type: 'string', pattern: '^[0-9a-fA-F]{32}$' },
);

/** Builds the schema of a list whose words come from a small set; error messages call a word `kind`. */
function buildWordListSchema<const Word extends string>(known: readonly Word[], kind: string) {
  const word = z.custom<Word>((value) => (known as readonly unknown[]).includes(value), {
    error: ({ input }) => `${JSON.stringify(input)} is not ${kind}; known are: ${known.join(', ')}`,
  });
  return documented(texts.pipe(z.array(word)), buildListSchema({ enum: known }));
}

export const eventTypes = buildWordListSchema<EventType>(EVENT_TYPES, 'an event type');

/** Lists the labels of all fields with this name. */
function listLabels(field: string): string[] {
  const kinds = EVENTS.flatMap((event) => selectFields(event, (name) => name === field)).map(({ kind }) => kind);
  return [...new Set(kinds.flatMap(({ labels }) => [...(labels?.values() ?? [])]))];
}

export const OPERATIONS = listLabels('operation');
export const SYSCALLS = listLabels('syscall');

export const operations = buildWordListSchema(OPERATIONS, 'an operation');
export const syscalls = buildWordListSchema(SYSCALLS, 'a system call that is recorded');

/** The JSON schema of a list of errors. */
const ERRORS_JSON = {
  type: 'array',
  items: { anyOf: [{ enum: ERROR_NAMES }, { type: 'string', pattern: '^errno [1-9]\\d{0,17}$' }] },
};

/** Names of errors as they appear in events; each name is parsed to the results that it stands for. */
const errorResults = z.array(z.string()).transform((names, context) =>
  names.flatMap((name, i) => {
    const results = parseErrorName(name);
    if (results) return results;
    const message = `${JSON.stringify(name)} is not the name of an error, such as ENOSPC or errno 1234`;
    context.issues.push({ code: 'custom', message, input: name, path: [i] });
    return [];
  }),
);

export const errors = documented(texts.pipe(errorResults), ERRORS_JSON);

/** Names of errors, as an array in a body. */
export const errorArray = documented(z.array(z.string()).min(1, 'must name an error').pipe(errorResults), {
  ...ERRORS_JSON,
  minItems: 1,
});
