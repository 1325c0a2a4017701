/** Runs one SQL query on a recording. */
import Database from 'better-sqlite3';
import { ExportError } from '../errors.ts';
import type { Source } from '../source.ts';
import { takeTableFailure } from './native_tables.ts';
import { defineTables } from './sql_tables.ts';

export type SqlValue = string | number | bigint | Buffer | null;

interface SqlAnswer {
  readonly columns: readonly string[];
  readonly rows: Iterable<SqlValue[]>;
  close(): void;
}

/**
 * Matches the start of a query: comments, EXPLAIN, and then one of the words with which a query begins. Other
 * statements must not reach SQLite: ATTACH and VACUUM write files, and a PRAGMA takes effect while SQLite compiles it.
 */
const QUESTION =
  /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*(?:explain\s+(?:query\s+plan\s+)?)?(?:select|with|values)\b/i;

export function askSql(source: Source, sql: string, nowNs: bigint): SqlAnswer {
  if (!QUESTION.test(sql)) throw new ExportError('sql: a query must begin with SELECT, WITH, VALUES or EXPLAIN');
  const database = new Database(':memory:');
  try {
    database.defaultSafeIntegers(true);
    defineTables(database, source, sql, nowNs);
    const statement = database.prepare<[], SqlValue[]>(sql).raw();
    if (!statement.readonly) throw new ExportError('sql: only queries: a recording does not change');
    return {
      columns: statement.columns().map(({ name }) => name),
      rows: readRows(statement.iterate()),
      close: () => void database.close(),
    };
  } catch (error) {
    database.close();
    throw toQueryError(error);
  }
}

function* readRows(rows: IterableIterator<SqlValue[]>): Generator<SqlValue[]> {
  try {
    yield* rows;
  } catch (error) {
    throw toQueryError(error);
  }
}

/**
 * Converts an error of SQLite or better-sqlite3 to an ExportError, because the query caused it. better-sqlite3's own
 * checks throw RangeError and TypeError. Returns any other error unchanged.
 */
function toQueryError(thrown: unknown): unknown {
  const error = takeTableFailure(thrown);
  const { name, message } = error as Error;
  return ['SqliteError', 'RangeError', 'TypeError'].includes(name) ? new ExportError(`sql: ${message}`) : error;
}
