/** The query of a URL becomes typed values here, or a problem that names what is wrong. */
import type { z } from 'zod';
import { invalid } from '../invalid_input.ts';
import { Problem } from '../problem.ts';

/** One value each; a parameter that was given more than once is an array. */
export type Query = Readonly<Record<string, string | readonly string[]>>;

/** For `app.set('query parser')`: unlike node:querystring it drops nothing and guesses nothing. */
export function queryOf(text: string | null): Query {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const pair of (text ?? '').split('&').filter(Boolean)) {
    const equals = pair.includes('=') ? pair.indexOf('=') : pair.length;
    const name = decode(pair.slice(0, equals));
    const value = decode(pair.slice(equals + 1), name);
    query[name] = name in query ? [query[name]!, value].flat() : value;
  }
  return query;
}

/** `parameter`: whose value it is. */
function decode(text: string, parameter?: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    const message = 'is not percent-encoded UTF-8';
    if (parameter === undefined) throw new Problem('malformed_request', `${JSON.stringify(text)} ${message}`);
    throw new Problem('malformed_request', `${parameter}: ${message}`, [{ parameter, message }]);
  }
}

/** `query`: `req.query`, which Express types by the parser that it would have used. */
export function parseQuery<Schema extends z.ZodType>(
  query: Query | Readonly<Record<string, unknown>>,
  schema: Schema,
): z.output<Schema> {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  throw invalid('invalid_parameter', result.error, 'parameter', ([name = '']) => ({ parameter: String(name) }));
}
