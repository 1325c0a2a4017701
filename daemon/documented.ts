/** What a document of the API says of a value that is text or a bigint for the code. */
import type { z } from 'zod';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Takes the place of what would be made of the schema; a description of the schema stays. */
export function documented<Schema extends z.ZodType>(schema: Schema, described: JsonSchema): Schema {
  return schema.meta({
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      const { description } = jsonSchema;
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      Object.assign(jsonSchema, described, description !== undefined && { description });
    },
  }) as Schema;
}
