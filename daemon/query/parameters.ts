/**
 * Kinds of query parameter. Each is parsed from text here, with an error message that describes the accepted values.
 */
import { z } from 'zod';
import { parseMilliseconds } from '../../agent/config/duration.ts';
import { EVENT_TYPES, type EventType } from '../../bpf/schema/index.ts';
import { documented } from '../documented.ts';
import { parseTime, timeMessage } from './time.ts';

export const noParameters = z.strictObject({});

const U32_MAX = 2 ** 32 - 1;
const DURATION_NS_MAX = 2n ** 63n - 1n;

/** Must be given once and not be empty: `service=` is a mistake, and treating it as no filter would widen the query. */
export const text = z
  .string({ error: ({ input }) => (Array.isArray(input) ? 'must be given once' : undefined) })
  .min(1, 'must not be empty');

const listOf = (item: Readonly<Record<string, unknown>>) => ({ type: 'array', items: { type: 'string', ...item } });

const severalTexts = z.union([z.string(), z.array(z.string())]).transform((values) => [values].flat());
const itemsOf = (value: string) => value.split(',').map((item) => item.trim());
const noneEmpty = z.array(z.string().min(1, 'must not be empty'));

/** Accepts several values: repeated parameters, or a list with commas, each optionally followed by spaces. */
export const texts = documented(
  severalTexts.transform((values) => values.flatMap(itemsOf)).pipe(noneEmpty),
  listOf({ minLength: 1 }),
);

/**
 * Like `texts`, for services: a name may itself contain a comma or spaces, so untrimmed items and the whole value match
 * too.
 */
export const services = documented(
  severalTexts
    .transform((values) => [...new Set(values.flatMap((value) => [...itemsOf(value), ...value.split(','), value]))])
    .pipe(noneEmpty),
  listOf({ minLength: 1 }),
);

/** `parse` returns undefined for text that it does not accept; `described` is its JSON schema. */
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

export const eventTypes = documented(
  texts.pipe(
    z.array(
      z.custom<EventType>((value) => (EVENT_TYPES as readonly unknown[]).includes(value), {
        error: ({ input }) => `${JSON.stringify(input)} is not an event type; known are: ${EVENT_TYPES.join(', ')}`,
      }),
    ),
  ),
  listOf({ enum: EVENT_TYPES }),
);
