/**
 * Checks that the tables of a file are those that kreplay makes. A recording may come from an untrusted source, and
 * SQLite runs what its schema contains: expressions of generated columns and indexes, checks, views.
 */
import type Database from 'better-sqlite3';

/** All statements of kreplay are shorter. */
const SQL_MAX = 4096;
const OBJECTS_MAX = 64;

const OBJECTS = `
SELECT type, name, CASE WHEN length(sql) > ${SQL_MAX} THEN '' ELSE sql END
FROM main.sqlite_schema
LIMIT ${OBJECTS_MAX + 1}`;

const TABLE = /^CREATE TABLE "?(\w+)"? \(([^()]*(?:\([\w, ]*\)[^()]*)?)\)\s*(STRICT(?:, WITHOUT ROWID)?)$/;

interface Shape {
  parts: ReadonlySet<string>;
  options: string;
}

export interface SchemaCheck {
  /** Describes something in the file that kreplay does not make; undefined when there is nothing. */
  foreign(database: Database.Database): string | undefined;
}

/** `createTables` has the statements that make the tables. */
export function schemaCheck(createTables: string): SchemaCheck {
  const statements = createTables
    .replaceAll(/^\s*--.*$/gm, '')
    .split(';')
    .map((text) => text.trim());
  const indexes = new Set(statements.filter((text) => text.startsWith('CREATE INDEX')));
  const tables = Map.groupBy(
    statements.map(tableOf).filter((table) => table !== undefined),
    ({ name }) => name,
  );

  function isOurs(type: unknown, name: unknown, sql: unknown): boolean {
    if (type === 'index') return sql === null ? String(name).startsWith('sqlite_autoindex_') : indexes.has(String(sql));
    if (type !== 'table' || typeof sql !== 'string') return false;
    const found = tableOf(sql);
    if (!found || found.name !== name) return false;
    return (tables.get(found.name) ?? []).some(
      ({ options, parts }) => options === found.options && [...found.parts].every((part) => parts.has(part)),
    );
  }

  return {
    foreign(database) {
      const objects = database.prepare<[], [unknown, unknown, unknown]>(OBJECTS).raw().all();
      if (objects.length > OBJECTS_MAX) return 'too many tables';
      const found = objects.find(([type, name, sql]) => !isOurs(type, name, sql));
      return found && `${String(found[0]).slice(0, 20)} ${String(found[1]).slice(0, 60)}`;
    },
  };
}

function tableOf(sql: string): ({ name: string } & Shape) | undefined {
  const [, name, body, options] = TABLE.exec(sql) ?? [];
  if (name === undefined || body === undefined || options === undefined) return undefined;
  // Commas inside the parentheses of a key do not separate columns.
  const parts = body.split(/,(?![^(]*\))/).map((part) => part.replaceAll(/\s+/g, ' ').trim());
  return { name, parts: new Set(parts), options };
}
