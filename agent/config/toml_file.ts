/** Reads a configuration file as a list of entries, each with its line and column. */
import { type AST, ParseError, parseTOML } from 'toml-eslint-parser';

export interface SourceLocation {
  path: string;
  /** Line number. Lines and columns are counted from 1. */
  line: number;
  column: number;
}

/** A TOML value. Texts and numbers stay as written, so that the parser of the flag can parse them, too. */
export type TomlValue =
  | { kind: 'boolean'; value: boolean }
  | { kind: 'text' | 'number' | 'date'; value: string }
  | { kind: 'list'; items: { value: TomlValue; place: SourceLocation }[] };

export interface TomlEntry {
  /** Keys from the outermost table on, such as `['agent', 'ring-size']`. */
  keys: readonly string[];
  place: SourceLocation;
  /** The value; undefined for a table, which may be empty. */
  value: TomlValue | undefined;
  valuePlace: SourceLocation;
}

export interface ConfigProblem {
  place: SourceLocation;
  message: string;
}

export function showPlace({ path, line, column }: SourceLocation): string {
  return `${path}:${line}:${column}`;
}

/**
 * Returns the entries of a file. A syntax error is the only problem returned, because the text after it may be misread.
 */
export function readEntries(path: string, text: string): { entries: TomlEntry[]; problems: ConfigProblem[] } {
  try {
    const { body } = parseTOML(text).body[0];
    return { entries: body.flatMap((node) => collectNodeEntries(path, node)), problems: [] };
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    const place = { path, line: error.lineNumber, column: error.column + 1 };
    return { entries: [], problems: [{ place, message: `this is not TOML: ${error.message}` }] };
  }
}

function collectNodeEntries(
  path: string,
  node: AST.TOMLTable | AST.TOMLKeyValue,
  above: readonly string[] = [],
): TomlEntry[] {
  const place = toSourceLocation(path, node.key);
  if (node.type === 'TOMLTable') {
    // For `[[a]]`, the index of the table is one of its keys. No setting has such a key, so it is reported as unknown.
    const keys = node.resolvedKey.map(String);
    const table: TomlEntry = { keys, place, value: undefined, valuePlace: place };
    return [table, ...node.body.flatMap((inner) => collectNodeEntries(path, inner, keys))];
  }
  const keys = [...above, ...node.key.keys.map((part) => (part.type === 'TOMLBare' ? part.name : part.value))];
  if (node.value.type === 'TOMLInlineTable') {
    const table: TomlEntry = { keys, place, value: undefined, valuePlace: place };
    return [table, ...node.value.body.flatMap((inner) => collectNodeEntries(path, inner, keys))];
  }
  return [{ keys, place, value: toTomlValue(path, node.value), valuePlace: toSourceLocation(path, node.value) }];
}

function toTomlValue(path: string, node: AST.TOMLContentNode): TomlValue | undefined {
  if (node.type === 'TOMLInlineTable') return undefined;
  if (node.type === 'TOMLArray') {
    const items = node.elements.map((item) => ({
      value: toTomlValue(path, item),
      place: toSourceLocation(path, item),
    }));
    // A table in a list becomes an empty list: both are rejected, because the items must be texts or numbers.
    return {
      kind: 'list',
      items: items.map(({ value, place }) => ({ value: value ?? { kind: 'list', items: [] }, place })),
    };
  }
  if (node.kind === 'boolean') return { kind: 'boolean', value: node.value };
  if (node.kind === 'string') return { kind: 'text', value: node.value };
  if (node.kind === 'integer') return { kind: 'number', value: String(node.bigint) };
  if (node.kind === 'float') return { kind: 'number', value: node.number };
  return { kind: 'date', value: node.datetime };
}

function toSourceLocation(path: string, { loc }: AST.TOMLNode): SourceLocation {
  return { path, line: loc.start.line, column: loc.start.column + 1 };
}
