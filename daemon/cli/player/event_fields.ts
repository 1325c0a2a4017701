/** Fields of a replayed event that a condition can name, derived from the schema that describes the API. */
import { z } from 'zod';
import { replayedEventSchema } from '../../http/contract/replay_answers.ts';

export type FieldKind = 'integer' | 'text' | 'boolean';

export interface EventField {
  /** Path within the event: `attribution.quality`. */
  path: readonly string[];
  kind: FieldKind;
  nullable: boolean;
  /** All possible values, if they are known. */
  values?: readonly string[];
  /** Factor from the number in a condition to the event's value: a field in milliseconds is stored in nanoseconds. */
  scale: 1 | 1_000_000;
}

/** Returns the fields by name. Every `_ns` has an `_ms` next to it; lists cannot be used in a condition. */
export function eventFields(): ReadonlyMap<string, EventField> {
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
  // Unites the values of all types of event: each type has its own `event_type`.
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
