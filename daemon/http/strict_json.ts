/**
 * Rejects JSON that JSON.parse accepts but a request must not contain: duplicate names, of which the last would
 * silently win; `__proto__`, which is lost before the schema sees it; and nesting so deep that it overflows a reader's
 * stack.
 */

import { parseJson } from '../base/exact_json.ts';
import { Problem, pointerTo } from '../base/problem.ts';

const DEPTH_MAX = 64;

interface Level {
  /** Names of the object so far; null in an array. */
  names: Set<string> | null;
  /** Whether the next string is a name. */
  isName: boolean;
  at: string | number;
}

/** Throws a Problem, or a SyntaxError if the text is not JSON. Integers stay exact. */
export function parseStrictly(text: string): unknown {
  // Parses without a reviver first, which would recurse down the levels: after this, all strings are known to be
  // terminated.
  JSON.parse(text);
  checkNames(text);
  return parseJson(text);
}

/** Scans a text that is valid JSON once. */
function checkNames(text: string): void {
  const levels: Level[] = [];
  for (let at = 0; at < text.length; ) {
    const end = text[at] === '"' ? stringEnd(text, at) : at + 1;
    const level = levels.at(-1);
    if (text[at] === '"' && level?.names && level.isName) checkName(level, level.names, text.slice(at, end), levels);
    else if (text[at] === ',') goOn(level);
    else if (text[at] === '{' || text[at] === '[') goDown(levels, text[at] === '{');
    else if (text[at] === '}' || text[at] === ']') levels.pop();
    at = end;
  }
}

/** Returns the position after the closing quote. */
function stringEnd(text: string, start: number): number {
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
    const pointer = pointerTo(levels.map(({ at }) => at));
    return new Problem('invalid_body', `${pointer.slice(1)}: ${message}`, [{ pointer, message }]);
  };
  if (names.has(name)) throw refuse('is given twice');
  if (name === '__proto__') throw refuse('unknown field');
  names.add(name);
}
