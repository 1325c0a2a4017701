/** Parses request bodies into typed values. Throws a problem that names the invalid fields. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { MIMEType } from 'node:util';
import { type Request, type RequestHandler, raw } from 'express';
import type { z } from 'zod';
import { parseJson } from '../base/exact_json.ts';
import { buildJsonPointer, Problem } from '../base/problem.ts';
import { createInputProblem } from '../contract/invalid_input.ts';

export const BODY_BYTES_MAX = 64 * 1024;

/** Time that the connection stays open after a refusal, so that the client can read the answer. */
const LINGER_MS = 2_000;

const readBytes = raw({ type: () => true, limit: BODY_BYTES_MAX });

/**
 * Reads the body as bytes. `parseBody` parses these bytes, because body-parser's JSON parser rounds large integers. A
 * body that is too large is refused as soon as its size is known, whereas body-parser would read all of it first.
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

/**
 * Closes the connection after the answer, but continues reading for a moment: the kernel resets a connection that is
 * closed while it has unread bytes, and the client may then lose the answer.
 */
function closeAfter({ socket }: IncomingMessage, res: ServerResponse): void {
  res.shouldKeepAlive = false;
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  };
}

/** Parses the body that `readBody` read. An empty body counts as `{}`: every field of a command is optional. */
export function parseBody<Schema extends z.ZodType>(req: Request, schema: Schema): z.output<Schema> {
  const bytes: unknown = req.body;
  const empty = !Buffer.isBuffer(bytes) || bytes.length === 0;
  // Prevents CSRF: a page of another site can send a form or text/plain without a CORS preflight, but not JSON.
  if (!empty && !req.is('json'))
    throw new Problem('unsupported_media_type', 'the body must be JSON: send Content-Type: application/json');
  if (!empty && !/^utf-?8$/i.test(parseCharset(req.headers['content-type']!)))
    throw new Problem('unsupported_media_type', 'the body must be in UTF-8');
  return parseValue(empty ? {} : parseJsonBytes(bytes), schema);
}

/** Returns the charset; JSON is UTF-8 by default. */
function parseCharset(contentType: string): string {
  try {
    return new MIMEType(contentType).params.get('charset') ?? 'utf-8';
  } catch {
    throw new Problem('unsupported_media_type', 'Content-Type cannot be read: send application/json');
  }
}

function parseValue<Schema extends z.ZodType>(value: unknown, schema: Schema): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw createInputProblem('invalid_body', result.error, 'field', (path) => ({ pointer: buildJsonPointer(path) }));
}

function parseJsonBytes(bytes: Buffer): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return parseStrictly(text);
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem('malformed_json', `the body is not JSON: ${(error as Error).message}`);
  }
}

/*
 * Rejects JSON that JSON.parse accepts but a request must not contain: duplicate names, of which the last one would
 * silently take effect; `__proto__`, which is lost before the schema sees it; and nesting so deep that it overflows the
 * stack of a recursive parser.
 */

const DEPTH_MAX = 64;

interface Level {
  /** Names that the object has so far; null in an array. */
  names: Set<string> | null;
  /** Whether the next string is a member's name, not a value. */
  isName: boolean;
  at: string | number;
}

/**
 * Parses JSON with exact integers. Throws a SyntaxError if the text is not JSON, or a Problem if the JSON is not
 * permitted.
 */
export function parseStrictly(text: string): unknown {
  // The first parse has no reviver, because a reviver would recurse into deep levels. It ensures that all strings are
  // terminated, as `checkNames` requires.
  JSON.parse(text);
  checkNames(text);
  return parseJson(text);
}

/** Checks the names and the depth of a text that is known to be valid JSON. */
function checkNames(text: string): void {
  const levels: Level[] = [];
  for (let at = 0; at < text.length; ) {
    const end = text[at] === '"' ? findStringEnd(text, at) : at + 1;
    const level = levels.at(-1);
    if (text[at] === '"' && level?.names && level.isName) checkName(level, level.names, text.slice(at, end), levels);
    else if (text[at] === ',') goOn(level);
    else if (text[at] === '{' || text[at] === '[') goDown(levels, text[at] === '{');
    else if (text[at] === '}' || text[at] === ']') levels.pop();
    at = end;
  }
}

/** Returns the position after the closing quote. */
function findStringEnd(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function goDown(levels: Level[], isObject: boolean): void {
  if (levels.length === DEPTH_MAX)
    throw new Problem('malformed_json', `the body is nested deeper than ${DEPTH_MAX} levels`);
  levels.push(isObject ? { names: new Set(), isName: true, at: '' } : { names: null, isName: false, at: 0 });
}

function goOn(level: Level | undefined): void {
  if (level?.names) level.isName = true;
  else if (level) level.at = Number(level.at) + 1;
}

function checkName(level: Level, names: Set<string>, token: string, levels: readonly Level[]): void {
  const name = JSON.parse(token) as string;
  level.at = name;
  level.isName = false;
  const refuse = (message: string) => {
    const pointer = buildJsonPointer(levels.map(({ at }) => at));
    return new Problem('invalid_body', `${pointer.slice(1)}: ${message}`, [{ pointer, message }]);
  };
  if (names.has(name)) throw refuse('is given twice');
  if (name === '__proto__') throw refuse('unknown field');
  names.add(name);
}
