/** Value types of settings and options: zod schemas that convert a user's text to a command's value. */
import { InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { parseDuration } from '../../daemon/base/duration.ts';

/** Returns a schema that applies `parse` to a text; `message` is the issue if `parse` returns undefined. */
export function createTextSchema<Value>(
  parse: (text: string) => Value | undefined,
  message: string,
): z.ZodType<Exclude<Value, undefined>, string> {
  return z.string().transform((text, context) => {
    const value = parse(text);
    if (value !== undefined) return value as Exclude<Value, undefined>;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });
}

export function createChoiceSchema<const Names extends readonly string[]>(names: Names) {
  return z.enum(names, { error: `Allowed choices are ${names.join(', ')}.` });
}

/** Marks a schema whose values are numbers in a file, not quoted texts. */
export function integer<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ type: 'integer' });
}

export function isInteger(schema: z.ZodType): boolean {
  return schema.meta()?.type === 'integer';
}

/** Schema of a duration; the value is in nanoseconds. */
export const DURATION = createTextSchema(parseDuration, 'must be a duration with its unit, such as 50us, 2ms or 1.5s');

export const POSITIVE_INTEGER = integer(
  createTextSchema(
    (text) => (/^[1-9]\d{0,9}$/.test(text) ? Number(text) : undefined),
    'must be a whole number above 0',
  ),
);

/** Returns a parser for an option of commander. */
export function createOptionParser<Value>(schema: z.ZodType<Value, string>): (text: string) => Value {
  return (text) => {
    const { success, data, error } = schema.safeParse(text);
    if (success) return data;
    throw new InvalidArgumentError(getIssueMessage(error));
  };
}

/** Returns the message of the first issue. */
export function getIssueMessage({ issues }: z.ZodError): string {
  return issues[0]!.message;
}
