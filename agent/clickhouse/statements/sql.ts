/**
 * Builds SQL safely: the text of a statement is in the source code, and values enter it only through functions that
 * check them.
 *
 *   sql`SELECT ${columns(['number'])} FROM ${identifier('event')} WHERE service = ${text(name)}`
 */
import { I64_MIN, U64_MAX } from '../../../daemon/base/bigints.ts';
import { formatTypeName, INTEGERS, type IntegerName, type NativeType } from '../native/types.ts';

const MADE_HERE = Symbol('sql');

/** A statement or a part of a statement. The symbol distinguishes it from other objects with a `text`. */
export interface Sql {
  readonly text: string;
  readonly [MADE_HERE]: true;
}

/** An error about a value that is not allowed at its position in the SQL. It is a bug in the caller. */
export class SqlError extends Error {
  override readonly name = 'SqlError';
}

function createSql(text: string): Sql {
  return { text, [MADE_HERE]: true };
}

/** Builds SQL from a template. A number in the template becomes a literal, in parentheses if it is negative. */
export function sql(strings: TemplateStringsArray, ...parts: readonly (Sql | number | bigint)[]): Sql {
  // A direct call of `sql` could pass any strings. Only the strings of a template literal are frozen.
  if (!Object.isFrozen(strings) || !Array.isArray(strings.raw)) throw new SqlError('SQL is written as a template');
  let text = strings[0]!;
  for (const [i, part] of parts.entries()) text += toSqlText(part) + strings[i + 1]!;
  return createSql(text);
}

function toSqlText(part: Sql | number | bigint): string {
  if (typeof part === 'number' || typeof part === 'bigint') return number(part).text;
  if (part?.[MADE_HERE] !== true) throw new SqlError('a part of SQL must be made of SQL');
  return part.text;
}

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

export function isIdentifier(name: string): boolean {
  return IDENTIFIER.test(name);
}

/** Returns the quoted name of a database, table or column. */
export function identifier(name: string): Sql {
  if (!isIdentifier(name)) throw new SqlError(`${JSON.stringify(name.slice(0, 140))} cannot be a name in SQL`);
  return createSql(`\`${name}\``);
}

export function typeName(type: NativeType): Sql {
  return createSql(formatTypeName(type));
}

const WORD = /^[A-Za-z0-9_/{}.:+-]{1,500}$/;

/** Returns a quoted literal, for positions where SQL allows no expression: paths, hashes and words of settings. */
export function word(value: string): Sql {
  if (!WORD.test(value))
    throw new SqlError(`${JSON.stringify(value.slice(0, 500))} has characters that a word has not`);
  return createSql(`'${value}'`);
}

export function columns(names: readonly string[]): Sql {
  return list(names.map(identifier));
}

/**
 * Returns SQL for a text of any bytes, as hexadecimal digits. The digits need no escapes; escape rules differ between
 * server versions.
 */
export function text(value: string | Uint8Array): Sql {
  return createSql(`unhex('${Buffer.from(value as string).toString('hex')}')`);
}

/** Returns SQL for a value of a FixedString column. */
export function fixedText(bytes: Uint8Array): Sql {
  return createSql(`toFixedString(${text(bytes).text}, ${bytes.length})`);
}

export function number(value: number | bigint): Sql {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) throw new SqlError(`${value} is not a whole number`);
  if (value < I64_MIN || value > U64_MAX) throw new SqlError(`${value} has more than 64 bits`);
  // Debian's server parses the digits of the smallest number without the minus sign. They exceed an Int64, so it would
  // read a float.
  if (BigInt(value) === I64_MIN) return createSql(`(-${-(I64_MIN + 1n)} - 1)`);
  // Without parentheses, a minus before a negative number would begin a comment (`--`).
  return createSql(value < 0 ? `(${value})` : String(value));
}

/** Returns SQL for a number of exactly this type. Servers of version 18.16 do not compare tuples of different types. */
export function integer(type: Exclude<IntegerName, 'DateTime'>, value: number | bigint): Sql {
  const bits = INTEGERS[type].BYTES_PER_ELEMENT * 8;
  const digits = number(value).text;
  const wide = BigInt(value);
  const kept = type.startsWith('Int') ? BigInt.asIntN(bits, wide) : BigInt.asUintN(bits, wide);
  if (kept !== wide) throw new SqlError(`${value} is no ${type}`);
  return createSql(`to${type}(${digits})`);
}

/** Joins parts with commas. There must be at least one part, because SQL has no empty lists. */
export function list(parts: readonly Sql[]): Sql {
  if (parts.length === 0) throw new SqlError('a list in SQL has at least one item');
  return createSql(parts.map(toSqlText).join(', '));
}

/** Returns SQL for the rows of several SELECTs together, without removing duplicates. */
export function unionAll(selects: readonly Sql[]): Sql {
  if (selects.length === 0) throw new SqlError('a union in SQL has at least one SELECT');
  return createSql(selects.map(toSqlText).join('\nUNION ALL\n'));
}

export function and(conditions: readonly Sql[]): Sql {
  return joinConditions(conditions, ' AND ', '1');
}

export function or(conditions: readonly Sql[]): Sql {
  return joinConditions(conditions, ' OR ', '0');
}

/** Joins conditions. `none` is the SQL for an empty list of conditions. */
function joinConditions(conditions: readonly Sql[], word: string, none: string): Sql {
  return createSql(conditions.length === 0 ? none : `(${conditions.map(toSqlText).join(word)})`);
}
