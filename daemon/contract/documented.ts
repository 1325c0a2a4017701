/** Describes values as they appear in the API's documents, although they are text or bigints in the code. */
import type { z } from 'zod';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Replaces the JSON schema that zod would generate, but keeps the schema's description. */
export function documented<Schema extends z.ZodType>(schema: Schema, described: JsonSchema): Schema {
  return schema.meta({
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      const { description } = jsonSchema;
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      Object.assign(jsonSchema, described, description !== undefined && { description });
    },
  }) as Schema;
}
