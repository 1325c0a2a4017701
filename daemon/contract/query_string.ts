/** Parses the query of a URL into typed values, or throws a problem that names the invalid parameters. */
import type { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { createInputProblem } from './invalid_input.ts';

/** Values by parameter; an array for a parameter that was given more than once. */
export type Query = Readonly<Record<string, string | readonly string[]>>;

/**
 * Parses a query, for `app.set('query parser')`: unlike node:querystring, it keeps all parameters, and refuses invalid
 * percent-encoding instead of guessing.
 */
export function parseQueryString(text: string | null): Query {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const pair of (text ?? '').split('&').filter(Boolean)) {
    const equals = pair.includes('=') ? pair.indexOf('=') : pair.length;
    const name = decode(pair.slice(0, equals));
    const value = decode(pair.slice(equals + 1), name);
    query[name] = name in query ? [query[name]!, value].flat() : value;
  }
  return query;
}

/** Decodes a name or a value; for a value, `parameter` is the name of its parameter. */
function decode(text: string, parameter?: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    const message = 'is not percent-encoded UTF-8';
    if (parameter === undefined) throw new Problem('malformed_request', `${JSON.stringify(text)} ${message}`);
    throw new Problem('malformed_request', `${parameter}: ${message}`, [{ parameter, message }]);
  }
}

/**
 * Validates a query with a schema. `query` may be `req.query`, to which Express gives the type of its built-in parser.
 */
export function parseQuery<Schema extends z.ZodType>(
  query: Query | Readonly<Record<string, unknown>>,
  schema: Schema,
): z.output<Schema> {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  throw createInputProblem('invalid_parameter', result.error, 'parameter', ([name = '']) => ({
    parameter: String(name),
  }));
}
