/**
 * `node test/clickhouse/newest.ts FOLDER`: runs our statements and blocks on the newest ClickHouse that can be embedded,
 * which the folder has as the package `chdb`. It has no HTTP, no accounts and one writer.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import fc from 'fast-check';
import { decodeBlocks } from '../../agent/clickhouse/native/decode.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { formatTypeName, parseType } from '../../agent/clickhouse/native/types.ts';
import {
  buildAccountStatements,
  buildSharedAccountsSql,
  hashPassword,
  ROLES,
} from '../../agent/clickhouse/tables/accounts.ts';
import { addColumn, createDatabase, createTable, type TablePlace } from '../../agent/clickhouse/tables/ddl.ts';
import { BUCKET_NS_DEFAULT, buildTables } from '../../agent/clickhouse/tables/schema.ts';
import { parseServerVersion } from '../../agent/clickhouse/tables/server_version.ts';
import { anyValue, columnOf, HOSTILE, TYPE_NAMES, type Value, valuesOf } from './columns.ts';

interface Session {
  /** Throws an error with the server's message. */
  query(statement: string, format?: string): string;
}

const SYNTAX_ERROR = /Code: 62\b/;

const [package_] = process.argv.slice(2);
const { Session } = createRequire(join(resolve(package_!), 'x.js'))('chdb') as {
  Session: new (path: string) => Session;
};
const folder = mkdtempSync(join(tmpdir(), 'kreplay-newest-'));

try {
  const session = new Session(join(folder, 'data'));
  const version = session.query('SELECT version()', 'TabSeparated').trim();
  console.log(`ClickHouse ${version}`);
  makeTables(session, { database: 'kreplay', version: parseServerVersion(version) });
  for (const typeName of TYPE_NAMES) await passBlocks(session, typeName);
  parseAccounts(session);
  console.log('all right');
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Tables are made twice, and columns come back that were dropped. */
function makeTables(session: Session, place: TablePlace): void {
  const tables = buildTables(BUCKET_NS_DEFAULT);
  const statements = [createDatabase(place), ...tables.flatMap((table) => createTable(place, table))];
  for (const { text } of [...statements, ...statements]) session.query(text);
  const event = tables.find(({ name }) => name === 'event')!;
  session.query('ALTER TABLE kreplay.event DROP COLUMN sys_write_fd');
  session.query(addColumn(place, 'event', event.columns.find(({ name }) => name === 'sys_write_fd')!).text);
  for (const { name, columns } of tables) {
    const statement = `SELECT name, type FROM system.columns WHERE database = 'kreplay' AND table = '${name}'`;
    const lines = session.query(statement, 'TabSeparated').trim().split('\n').toSorted();
    assert.deepEqual(lines, columns.map((column) => `${column.name}\t${formatTypeName(column.type)}`).toSorted());
  }
  session.query(
    'INSERT INTO kreplay.event (timestamp_ns, number) VALUES (119999999999, 1), (120000000000, 2), (120000000000, 2)',
  );
  session.query('OPTIMIZE TABLE kreplay.event FINAL');
  assert.equal(
    session.query('SELECT bucket, number FROM kreplay.event ORDER BY number', 'TabSeparated'),
    '1\t1\n2\t2\n',
  );
  console.log(`${tables.length} tables`);
}

/** It reads our blocks, and we read its own. */
async function passBlocks(session: Session, typeName: string): Promise<void> {
  const type = parseType(typeName);
  const random = fc.sample(anyValue(type), { seed: 1, numRuns: 3000 });
  const extremes: Value[] = type.kind === 'text' || type.kind === 'dictionary' ? HOSTILE : [];
  const values = [...extremes, ...random];
  const rows = columnOf(
    'row',
    'UInt32',
    values.map((_, row) => BigInt(row)),
  );
  const block = createBlockEncoder().encode([rows, columnOf('a', typeName, values)], values.length);
  const [sent, answered] = [join(folder, 'sent.native'), join(folder, 'answered.native')];
  writeFileSync(sent, block);
  session.query('DROP TABLE IF EXISTS default.t');
  session.query(`CREATE TABLE default.t (row UInt32, a ${typeName}) ENGINE = MergeTree ORDER BY row`);
  session.query(`INSERT INTO default.t FROM INFILE '${sent}' FORMAT Native`);
  rmSync(answered, { force: true });
  session.query(`SELECT a FROM default.t ORDER BY row INTO OUTFILE '${answered}' FORMAT Native`);
  const found: Value[] = [];
  async function* chunks() {
    yield readFileSync(answered);
  }
  for await (const { rowCount, columns } of decodeBlocks(chunks()))
    found.push(...valuesOf(columns.get('a')!, rowCount));
  assert.deepEqual(found, values);
  console.log(`blocks of ${typeName}`);
}

/** No account can be made in an embedded server: it only shows whether the statements are understood. */
function parseAccounts(session: Session): void {
  const hashes = new Map(ROLES.map((role) => [role, hashPassword(role)]));
  const accounts = { database: 'kreplay', prefix: 'kr_', hashes, cluster: 'main' };
  const statements = [...buildAccountStatements(accounts), buildSharedAccountsSql('kreplay', 'kr_')];
  for (const { text } of statements) {
    try {
      session.query(text);
    } catch (error) {
      assert.doesNotMatch(String(error), SYNTAX_ERROR, text);
    }
  }
  console.log(`${statements.length} statements for accounts are understood`);
}
