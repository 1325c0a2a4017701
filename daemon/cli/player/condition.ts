/**
 * Conditions on events, in the syntax of `--break`: `duration_ms>50 && service_name=db`.
 *
 *   condition = term { "&&" term }      term = field operator value
 *   operator  = "=" | "!=" | ">" | ">=" | "<" | "<="
 *   value     = a word, or a JSON string where blanks, & or quotes are in it
 *
 * A condition on a field that an event's type does not have is false. `null` equals only itself, and it is neither
 * greater nor less than any value.
 */

import { z } from 'zod';
import { replayedEventSchema } from '../../contract/replay_answers.ts';
import type { ExactPlayedEvent } from './remote_session.ts';

export interface BreakCondition {
  /** The text from which the condition was parsed. */
  text: string;
  matches(event: ExactPlayedEvent): boolean;
}

type ConditionOperator = '=' | '!=' | '>' | '>=' | '<' | '<=';
type Value = bigint | string | boolean | null;
type Test = (event: ExactPlayedEvent) => boolean;

const TERM = /\s*([a-z_][\w.]*)\s*(>=|<=|!=|=|>|<)\s*("(?:[^"\\]|\\.)*"|[^\s&"=<>!][^\s&"]*)\s*(&&|$)/iy;
const DECIMAL = /^(-?)(\d{1,19})(?:\.(\d{1,6}))?$/;

const HOLDS: Readonly<Record<ConditionOperator, (order: number | undefined) => boolean>> = {
  '=': (order) => order === 0,
  '!=': (order) => order !== 0,
  '>': (order) => order === 1,
  '>=': (order) => order === 0 || order === 1,
  '<': (order) => order === -1,
  '<=': (order) => order === 0 || order === -1,
};

/** Parses a condition. Throws an Error whose message explains the mistake to the user. */
export function parseCondition(text: string): BreakCondition {
  const fields = collectEventFields();
  const tests: Test[] = [];
  for (let at = 0, more = true; more; ) {
    TERM.lastIndex = at;
    const match = TERM.exec(text);
    if (!match)
      throw new Error(
        `cannot be read from ${JSON.stringify(text.slice(at))} on: conditions are FIELD=VALUE, with = != > >= < <=, and && between them`,
      );
    const [, name = '', operator, value = '', joint] = match;
    tests.push(createTest(fields, name, operator as ConditionOperator, value));
    more = joint === '&&';
    at = TERM.lastIndex;
  }
  return { text, matches: (event) => tests.every((test) => test(event)) };
}

function createTest(
  fields: ReadonlyMap<string, EventField>,
  name: string,
  operator: ConditionOperator,
  written: string,
): Test {
  const field = fields.get(name);
  if (!field) throw new Error(`there is no field ${name}; there are ${[...fields.keys()].join(', ')}`);
  if (field.kind !== 'integer' && operator !== '=' && operator !== '!=')
    throw new Error(`${name} is not a number: it has no order, only = and !=`);
  const wanted = parseWantedValue(field, name, written);
  if (wanted === null && operator !== '=' && operator !== '!=')
    throw new Error(`${name}: nothing is more or less than null`);
  const holds = HOLDS[operator];
  return (event) => {
    const found = getFieldValue(event, field);
    return found !== undefined && holds(compareValues(found, wanted));
  };
}

function parseWantedValue(field: EventField, name: string, written: string): Value {
  const quoted = written.startsWith('"');
  const text = quoted ? unquote(name, written) : written;
  if (text === 'null' && !quoted) {
    if (field.nullable) return null;
    throw new Error(`${name} is never null`);
  }
  if (field.kind === 'integer') return parseInteger(field, name, text);
  if (field.values && !field.values.includes(text))
    throw new Error(`${name} is never ${JSON.stringify(text)}; it is ${field.values.join(', ')}`);
  return field.kind === 'boolean' ? text === 'true' : text;
}

function unquote(name: string, written: string): string {
  try {
    return JSON.parse(written) as string;
  } catch {
    throw new Error(`${name}: ${written} is not a JSON string`);
  }
}

/**
 * Parses a number in a condition. A number of milliseconds is converted to nanoseconds exactly, because it has at most
 * six decimal places.
 */
function parseInteger({ scale }: EventField, name: string, text: string): bigint {
  const [, sign, whole = '', fraction = ''] = DECIMAL.exec(text) ?? [];
  if (sign === undefined || (fraction !== '' && scale === 1))
    throw new Error(
      `${name} is ${scale === 1 ? 'an integer' : 'a number of milliseconds'}, not ${JSON.stringify(text)}`,
    );
  const digits = scale === 1 ? whole : whole + fraction.padEnd(6, '0');
  return sign === '-' ? -BigInt(digits) : BigInt(digits);
}

/** Returns the value of a field; undefined if events of this type have no such field. */
function getFieldValue(event: ExactPlayedEvent, { path, kind }: EventField): Value | undefined {
  let found: unknown = event;
  for (const name of path) found = (found as Record<string, unknown> | undefined)?.[name];
  if (kind === 'integer' && typeof found === 'number') return BigInt(found);
  return found as Value | undefined;
}

/** Compares two values. Returns undefined if they differ but have no order. */
function compareValues(found: Value, wanted: Value): -1 | 0 | 1 | undefined {
  if (found === wanted) return 0;
  if (typeof found !== 'bigint' || typeof wanted !== 'bigint') return undefined;
  return found > wanted ? 1 : -1;
}

/* The fields of a replayed event that a condition can name. They are derived from the API's schema. */

type FieldKind = 'integer' | 'text' | 'boolean';

interface EventField {
  /** Names that lead to the field in the event, such as `['attribution', 'quality']`. */
  path: readonly string[];
  kind: FieldKind;
  nullable: boolean;
  /** All possible values, if they are known. */
  values?: readonly string[];
  /** Factor by which a number in a condition is multiplied: 1,000,000 for the `_ms` name of a field in nanoseconds. */
  scale: 1 | 1_000_000;
}

/**
 * Returns the fields by name. A field in nanoseconds has two names: its `_ns` name and, for values in milliseconds, an
 * `_ms` name. Lists are left out.
 */
function collectEventFields(): ReadonlyMap<string, EventField> {
  const fields = new Map<string, EventField>();
  for (const { shape } of replayedEventSchema.options) addFields(fields, shape, []);
  return new Map([...fields].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function addFields(fields: Map<string, EventField>, shape: z.core.$ZodShape, parents: readonly string[]): void {
  for (const [name, schema] of Object.entries(shape)) {
    const path = [...parents, name];
    if (schema instanceof z.ZodObject) addFields(fields, schema.shape, path);
    else addField(fields, path, schema);
  }
}

function addField(fields: Map<string, EventField>, path: readonly string[], schema: z.core.$ZodType): void {
  const nullable = schema instanceof z.ZodNullable;
  const described = describe(nullable ? schema.unwrap() : schema);
  if (!described) return;
  const name = path.join('.');
  const known = fields.get(name);
  // A field may have other values in each event type, as `event_type` does, so the values of all types are combined.
  const values = described.values && [...new Set([...(known?.values ?? []), ...described.values])];
  const field: EventField = { ...described, path, nullable, scale: 1, ...(values && { values }) };
  fields.set(name, field);
  if (name.endsWith('_ns')) fields.set(name.replace(/_ns$/, '_ms'), { ...field, scale: 1_000_000 });
}

function describe(schema: z.core.$ZodType): { kind: FieldKind; values?: readonly string[] } | undefined {
  if (schema instanceof z.ZodNumber || schema instanceof z.ZodBigInt) return { kind: 'integer' };
  if (schema instanceof z.ZodBoolean) return { kind: 'boolean', values: ['true', 'false'] };
  if (schema instanceof z.ZodEnum) return { kind: 'text', values: schema.options.map(String) };
  if (schema instanceof z.ZodLiteral) return { kind: 'text', values: [...schema.values].map(String) };
  return schema instanceof z.ZodString ? { kind: 'text' } : undefined;
}
