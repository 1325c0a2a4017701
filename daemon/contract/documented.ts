/** Describes values that are a text or a bigint in the code as they appear in the API's documents. */
import type { z } from 'zod';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Replaces the JSON schema that zod would generate; a description of the schema is kept. */
export function documented<Schema extends z.ZodType>(schema: Schema, described: JsonSchema): Schema {
  return schema.meta({
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      const { description } = jsonSchema;
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      Object.assign(jsonSchema, described, description !== undefined && { description });
    },
  }) as Schema;
}
