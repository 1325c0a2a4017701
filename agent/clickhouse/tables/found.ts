/** The state of a fleet on a server: its tables, and the values in `meta`. */
import { type Connection, QUESTION_MS } from '../connection/connection.ts';
import { readTypedRows } from '../connection/rows.ts';
import { ServerError } from '../connection/server_error.ts';
import { sql, text } from '../statements/sql.ts';
import { type MetaDraft, readDraft } from './meta.ts';
import { NO_DATABASE } from './server_version.ts';

export interface FoundColumn {
  type: string;
  /** The expression that computes the column, as the server formats it; '' if there is none. */
  expression: string;
}

export interface FoundTable {
  /** The engine with its parameters, keys and settings. */
  engine: string;
  columns: ReadonlyMap<string, FoundColumn>;
}

export interface Found {
  /** URL of the server, or name of the database, for messages. */
  place: string;
  hasDatabase: boolean;
  tables: ReadonlyMap<string, FoundTable>;
  draft: MetaDraft | undefined;
}

const QUESTION = { timeoutMs: QUESTION_MS };

/** Reads the state. Throws a ServerError. */
export async function readDatabaseState(connection: Connection, place: string): Promise<Found> {
  const draft = await readDraft(connection);
  try {
    return { place, hasDatabase: true, tables: await readFoundTables(connection), draft };
  } catch (error) {
    if (!(error instanceof ServerError) || error.code !== NO_DATABASE) throw error;
    return { place, hasDatabase: false, tables: new Map(), draft };
  }
}

async function readFoundTables(connection: Connection): Promise<Map<string, FoundTable>> {
  const here = sql`database = ${text(connection.database)}`;
  const columns = new Map<string, Map<string, FoundColumn>>();
  const all = sql`SELECT table, name, type, default_expression AS expression FROM system.columns WHERE ${here}`;
  const shape = { table: 'text', name: 'text', type: 'text', expression: 'text' } as const;
  for (const { table, name, type, expression } of await readTypedRows(connection, all, shape, QUESTION)) {
    const own = columns.get(table) ?? new Map<string, FoundColumn>();
    columns.set(table, own.set(name, { type, expression }));
  }
  const named = sql`SELECT name, engine_full AS engine FROM system.tables WHERE ${here}`;
  const tables = await readTypedRows(connection, named, { name: 'text', engine: 'text' }, QUESTION);
  return new Map(tables.map(({ name, engine }) => [name, { engine, columns: columns.get(name) ?? new Map() }]));
}
