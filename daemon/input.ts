/** Requests become typed values here, or a 400 that names what is wrong. */
import { MIMEType } from 'node:util';
import { type Request, type RequestHandler, raw } from 'express';
import { z } from 'zod';
import { documented } from './contract/documented.ts';
import { type InputError, Problem, pointerTo } from './errors.ts';
import { closeAfter } from './linger.ts';
import { parseStrictly } from './strict_json.ts';

const BODY_BYTES_MAX = 64 * 1024;

const readBytes = raw({ type: () => true, limit: BODY_BYTES_MAX });

/**
 * Reads the body as bytes; `parseBody` makes sense of them, because body-parser's JSON rounds integers. One that is too
 * large is refused as soon as that is known, where body-parser would read all of it first.
 */
export const readBody: RequestHandler = (req, res, next) => {
  let isSettled = false;
  let bytes = 0;
  function settle(error?: unknown): void {
    if (isSettled) return;
    isSettled = true;
    req.off('data', count);
    next(error);
  }
  function refuse(): void {
    closeAfter(req, res);
    settle(new Problem('body_too_large', `the body is larger than ${BODY_BYTES_MAX} bytes`));
  }
  function count(chunk: Buffer): void {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) refuse();
  }
  if (Number(req.headers['content-length'] ?? 0) > BODY_BYTES_MAX) return refuse();
  readBytes(req, res, settle);
  if (!isSettled) req.on('data', count);
};

const isSafe = (value: bigint) => Number.isSafeInteger(Number(value));

/** A 64-bit integer of a body: safe ones arrive as numbers, the others as bigints; always a bigint from here on. */
export function int64(min: bigint, max: bigint) {
  const schema = z
    .union([z.int(), z.bigint()], { error: 'must be an integer' })
    .transform(BigInt)
    .pipe(z.bigint().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));
  return documented(schema, {
    ...{ type: 'integer', format: 'int64' },
    // What a double does not hold exactly is only the limit of the format.
    ...(isSafe(min) && { minimum: Number(min) }),
    ...(isSafe(max) && { maximum: Number(max) }),
  });
}

/** The body after `readBody`. An empty one is `{}`: every field of a command may be left out. */
export function parseBody<Schema extends z.ZodType>(req: Request, schema: Schema): z.output<Schema> {
  const bytes: unknown = req.body;
  const empty = !Buffer.isBuffer(bytes) || bytes.length === 0;
  // A form or text/plain can be sent by any web page without asking; JSON can not.
  if (!empty && !req.is('json'))
    throw new Problem('unsupported_media_type', 'the body must be JSON: send Content-Type: application/json');
  if (!empty && !/^utf-?8$/i.test(charsetOf(req.headers['content-type']!)))
    throw new Problem('unsupported_media_type', 'the body must be in UTF-8');
  return parseValue(empty ? {} : jsonOf(bytes), schema);
}

/** JSON is in UTF-8 unless it says otherwise. */
function charsetOf(contentType: string): string {
  try {
    return new MIMEType(contentType).params.get('charset') ?? 'utf-8';
  } catch {
    throw new Problem('unsupported_media_type', 'Content-Type can not be read: send application/json');
  }
}

function parseValue<Schema extends z.ZodType>(value: unknown, schema: Schema): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalid('invalid_body', result.error, 'field', (path) => ({ pointer: pointerTo(path) }));
}

function jsonOf(bytes: Buffer): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return parseStrictly(text);
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem('malformed_json', `the body is not JSON: ${(error as Error).message}`);
  }
}

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
  query: Query | Request['query'],
  schema: Schema,
): z.output<Schema> {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  throw invalid('invalid_parameter', result.error, 'parameter', ([name = '']) => ({ parameter: String(name) }));
}

function invalid(
  code: 'invalid_body' | 'invalid_parameter',
  { issues }: z.ZodError,
  noun: 'field' | 'parameter',
  place: (path: readonly PropertyKey[]) => { pointer: string } | { parameter: string },
): Problem {
  const errors: InputError[] = issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ ...place([...issue.path, key]), message: `unknown ${noun}` }))
      : [{ ...place(issue.path), message: messageOf(issue) }],
  );
  const sentences = errors.map((error) => {
    const name = 'pointer' in error ? error.pointer.slice(1) : error.parameter;
    return name ? `${name}: ${error.message}` : error.message;
  });
  return new Problem(code, sentences.join('; '), errors);
}

function messageOf(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_type' && issue.message.endsWith('received undefined') ? 'is required' : issue.message;
}
