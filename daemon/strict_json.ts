/**
 * What JSON.parse lets pass and a request must not have: a name twice, of which the last one would silently count,
 * `__proto__`, which is lost on the way to the schema, and a depth that ends the stack of what reads it.
 */
import { Problem, pointerTo } from './errors.ts';

const DEPTH_MAX = 64;
/** Strings with their escapes, and what structures are made of. */
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],]/gs;

interface Level {
  /** Of an object; null in an array. */
  names: Set<string> | null;
  /** The next string is a name. */
  isName: boolean;
  at: string | number;
}

/** Throws a Problem; what is no JSON at all is left to the parser. */
export function checkNames(text: string): void {
  const levels: Level[] = [];
  for (const [token] of text.matchAll(TOKENS)) {
    const level = levels.at(-1);
    if (token === '{' || token === '[') {
      if (levels.length === DEPTH_MAX)
        throw new Problem('malformed_json', `the body is nested deeper than ${DEPTH_MAX} levels`);
      levels.push(token === '{' ? { names: new Set(), isName: true, at: '' } : { names: null, isName: false, at: 0 });
    } else if (token === '}' || token === ']') levels.pop();
    else if (token === ',') goOn(level);
    else if (level?.names && level.isName) checkName(level, level.names, token, levels);
  }
}

function goOn(level: Level | undefined): void {
  if (level?.names) level.isName = true;
  else if (level) level.at = Number(level.at) + 1;
}

function checkName(level: Level, names: Set<string>, token: string, levels: readonly Level[]): void {
  const name = nameOf(token);
  if (name === undefined) return;
  level.at = name;
  level.isName = false;
  const pointer = pointerTo(levels.map(({ at }) => at as string));
  const refuse = (message: string) =>
    new Problem('invalid_body', `${pointer.slice(1)}: ${message}`, [{ pointer, message }]);
  if (names.has(name)) throw refuse('is given twice');
  if (name === '__proto__') throw refuse('unknown field');
  names.add(name);
}

function nameOf(token: string): string | undefined {
  try {
    return JSON.parse(token) as string;
  } catch {
    return undefined;
  }
}
