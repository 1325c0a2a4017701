/** Values for a JSON schema of the API's document: those that it allows, and those that an attacker might send. */
import fc, { type Arbitrary } from 'fast-check';

export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  pattern?: string;
  format?: string;
}

const TIMES = ['2026-11-20T10:00:00Z', '2025-11-21T00:00:00.000000001Z', '1970-01-01T00:00:00+23:59'];
const BACK = ['-15m', '-1h30m', '-0.5s', '-3ns'];

export function allowed(schema: JsonSchema): Arbitrary<unknown> {
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return fc.oneof(...variants.map(allowed));
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema;
  switch (type) {
    case 'integer':
      return fc.maxSafeInteger().map((value) => Math.min(Math.max(value, minimum), maximum));
    case 'number':
      return fc.integer({ min: Math.ceil(minimum), max: Math.floor(Math.min(maximum, 1e6)) });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(allowed(schema.items ?? {}), { minLength: 1, maxLength: 3 });
    case 'object':
      return fc.record(
        Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, of]) => [name, allowed(of)])),
        { requiredKeys: schema.required ?? [] },
      );
    default:
      return allowedText(schema);
  }
}

function allowedText({ format, pattern, minLength = 0 }: JsonSchema): Arbitrary<string> {
  if (format === 'date-time') return fc.constantFrom(...TIMES);
  if (pattern?.startsWith('^-')) return fc.constantFrom(...BACK);
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern));
  return fc.string({ minLength, maxLength: 40, unit: 'grapheme' });
}

const HOSTILE_TEXTS = [
  ...[
    '',
    ' ',
    '\0',
    '%00',
    '%',
    '%zz',
    '../../etc/passwd',
    "' OR 1=1 --",
    '$' + '{jndi:ldap://a}',
    '<script>',
    '\r\nX: y',
  ],
  ...[
    'NaN',
    'Infinity',
    '-1',
    '1e400',
    '9007199254740993',
    '18446744073709551616',
    '0x10',
    '1_000',
    '٣',
    'true',
    'null',
  ],
  ...['-999999999999999999999d', '9999-12-31T23:59:59.999999999Z', '2026-02-30T00:00:00Z', '__proto__', 'constructor'],
  ...['a'.repeat(10_000), '\u202e', '\ud800', '[]', '{}', 'a,,b', ','],
];

/** Text for a parameter. */
export const hostileText: Arbitrary<string> = fc.oneof(
  fc.constantFrom(...HOSTILE_TEXTS),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.bigInt().map(String),
  fc.double().map(String),
);

/** JSON for a field, as text: it can contain numbers that no double represents. */
export const hostileJson: Arbitrary<string> = fc.oneof(
  fc.json({ maxDepth: 3 }),
  fc.bigInt().map(String),
  fc.constantFrom('1e400', '-0', '1.0000000000000000001', '9007199254740993.5', '[[[[]]]]', '{"__proto__": 1}'),
  hostileText.map((text) => JSON.stringify(text)),
);
