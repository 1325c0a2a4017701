/** Tests the tables on a real server: made, repeated, completed; what is sent again is one row. */
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { formatTypeName } from '../../agent/clickhouse/native/types.ts';
import { identifier, sql, text } from '../../agent/clickhouse/statements/sql.ts';
import { createTables, upgradeTables } from '../../agent/clickhouse/tables/changes.ts';
import type { TablePlace } from '../../agent/clickhouse/tables/ddl.ts';
import { readMeta, readServerColumns, writeMeta } from '../../agent/clickhouse/tables/meta.ts';
import { BUCKET_NS_DEFAULT, buildTables, SCHEMA_VERSION } from '../../agent/clickhouse/tables/schema.ts';
import { readServerVersion } from '../../agent/clickhouse/tables/server_version.ts';
import { columnOf, type Value } from './columns.ts';
import { type ClickHouseServer, endServers, startServer } from './server.ts';

const TABLES = buildTables(BUCKET_NS_DEFAULT);
const open: Connection[] = [];
let server: ClickHouseServer;
let count = 0;

beforeAll(async () => {
  server = await startServer();
});
afterEach(() => {
  for (const connection of open.splice(0)) connection.close();
});
afterAll(endServers);

/** A place of its own for each test. */
async function newPlace() {
  const settings = { urls: [server.url], database: `fleet_${++count}` };
  const connection = connect(settings);
  open.push(connection);
  const place: TablePlace = { database: settings.database, version: await readServerVersion(settings) };
  const init = (bucketNs = BUCKET_NS_DEFAULT, nowNs = 1n) => createTables(settings, place, { bucketNs, nowNs });
  return { connection, place, init };
}

describe('tables', () => {
  test('are made with every column of the schema, and a second time nothing changes', async () => {
    const { connection, init, place } = await newPlace();
    const names = TABLES.map(({ name }) => name);
    expect(await init()).toEqual({
      added: names,
      meta: { schemaVersion: SCHEMA_VERSION, bucketNs: BUCKET_NS_DEFAULT },
    });
    const found = await readServerColumns(connection);
    for (const { name, columns } of TABLES) {
      const wanted = columns.map((column) => [column.name, formatTypeName(column.type)]);
      expect([...found.get(name)!].toSorted()).toEqual(wanted.toSorted());
    }
    expect((await init()).added).toEqual([]);
    expect((await upgradeTables(connection, place, 2n)).added).toEqual([]);
    expect(await rowsOf(connection, sql`SELECT toUInt8(count()) AS n FROM meta`)).toEqual([{ n: 2n }]);
  });

  test('get the columns that they lack, and rows that were there have their defaults', async () => {
    const { connection, init, place } = await newPlace();
    await init();
    await connection.run(sql`ALTER TABLE event DROP COLUMN sys_write_fd`);
    await connection.run(sql`ALTER TABLE event DROP COLUMN origin_bytes`);
    await connection.run(sql`ALTER TABLE loss DROP COLUMN cause`);
    await connection.run(sql`DROP TABLE stat`);
    await send(connection, 'event', [{ timestamp_ns: 5n, number: 1n }]);
    expect((await upgradeTables(connection, place, 2n)).added.toSorted()).toEqual([
      'event.origin_bytes',
      'event.sys_write_fd',
      'loss.cause',
      'stat',
    ]);
    const row = await rowsOf(connection, sql`SELECT number, sys_write_fd, origin_bytes FROM event`);
    expect(row).toEqual([{ number: 1n, sys_write_fd: 0n, origin_bytes: [] }]);
  });

  test('get each column once when several add them at the same time', async () => {
    const { connection, init, place } = await newPlace();
    await init();
    const dropped = ['sys_write_fd', 'context_quality', 'origin_bytes', 'pid'];
    for (const name of dropped) await connection.run(sql`ALTER TABLE event DROP COLUMN ${identifier(name)}`);
    const all = await Promise.all([1n, 2n, 3n].map((nowNs) => upgradeTables(connection, place, nowNs)));
    expect(all.flatMap(({ added }) => added).toSorted()).toEqual(dropped.map((name) => `event.${name}`).toSorted());
  });

  test('keep the largest count of a loss, in whatever order its states arrive', async () => {
    const { connection, init } = await newPlace();
    await init();
    const counts = [3n, 7n, 5n];
    for (const count of counts) await send(connection, 'loss', [{ recording: 1n, loss_id: 2n, count }]);
    await server.sql(`OPTIMIZE TABLE ${connection.database}.loss PARTITION 0 FINAL`);
    expect(await rowsOf(connection, sql`SELECT count FROM loss`)).toEqual([{ count: 7n }]);
  });

  test('of others, and of a newer kreplay, are left alone', async () => {
    const { connection, init, place } = await newPlace();
    await expect(upgradeTables(connection, place, 1n)).rejects.toThrow(/no tables in|no such database/);
    await connection.run(sql`CREATE DATABASE IF NOT EXISTS ${identifier(place.database)}`).catch(() => {});
    await server.sql(`CREATE DATABASE IF NOT EXISTS ${place.database}`);
    await connection.run(sql`CREATE TABLE event (number String) ENGINE = MergeTree ORDER BY number`);
    await expect(init()).rejects.toThrow(/event.number is String, not UInt64: the table is not of kreplay/);
    await connection.run(sql`DROP TABLE event`);
    await init();
    await expect(init(1_000_000_000n)).rejects.toThrow(/buckets of 60000000000 ns, which cannot change/);
    await writeMeta(connection, { schemaVersion: SCHEMA_VERSION + 1, bucketNs: BUCKET_NS_DEFAULT }, 3n);
    await expect(upgradeTables(connection, place, 4n)).rejects.toThrow(/use the newer kreplay/);
    await expect(init()).rejects.toThrow(/use the newer kreplay/);
    expect((await readMeta(connection))?.schemaVersion).toBe(SCHEMA_VERSION + 1);
  });

  test('that were made halfway are completed', async () => {
    const { connection, init } = await newPlace();
    await init();
    await connection.run(sql`DROP TABLE meta`);
    await connection.run(sql`DROP TABLE pin`);
    expect((await init()).added).toEqual(['meta', 'pin']);
    expect(await readMeta(connection)).toEqual({ schemaVersion: SCHEMA_VERSION, bucketNs: BUCKET_NS_DEFAULT });
  });

  test('have one row for each event, however often and in whatever groups it was sent', async () => {
    const { connection, init } = await newPlace();
    await init();
    const hour = 3_600_000_000_000n;
    const rows = Array.from({ length: 100 }, (_, i) => ({
      timestamp_ns: 1_800_000_000_000_000_000n + BigInt(i) * (hour / 40n),
      recording: BigInt(i % 3),
      number: BigInt(i),
      owner: ['', 'a', '*'][i % 3]!,
      service: `s${i % 7}`,
      transaction_id: i % 2 ? `t${i}` : '',
    }));
    await send(connection, 'event', rows);
    await send(connection, 'event', rows);
    await send(connection, 'event', rows.slice(20, 60));
    await connection.run(sql`OPTIMIZE TABLE event FINAL`).catch(() => {});
    const partitions = await rowsOf(
      connection,
      sql`SELECT DISTINCT partition FROM system.parts WHERE database = ${text(connection.database)} AND table = 'event' AND active`,
    );
    expect(partitions.length).toBe(3);
    for (const { partition } of partitions)
      await server.sql(`OPTIMIZE TABLE ${connection.database}.event PARTITION ${String(partition)} FINAL`);
    const [sum] = await rowsOf(
      connection,
      sql`SELECT toUInt32(count()) AS n, sum(number) AS numbers, toUInt32(max(bucket) - min(bucket)) AS buckets FROM event`,
    );
    expect(sum).toEqual({ n: 100n, numbers: 4950n, buckets: 148n });
    const found = await rowsOf(
      connection,
      sql`SELECT toUInt32(count()) AS n FROM event WHERE owner IN (${text('a')}, ${text('*')})`,
    );
    expect(found).toEqual([{ n: 66n }]);
  });

  test('take rows of every table', async () => {
    const { connection, init } = await newPlace();
    await init();
    for (const { name } of TABLES.filter(({ name }) => name !== 'meta')) {
      await send(connection, name, [{}, {}]);
      const [row] = await rowsOf(connection, sql`SELECT toUInt32(count()) AS n FROM ${identifier(name)}`);
      expect(row!.n).toBeGreaterThan(0n);
    }
    const [arrived] = await rowsOf(connection, sql`SELECT max(toUInt32(arrived)) AS at FROM segment`);
    expect(Math.abs(Number(arrived!.at) - Date.now() / 1000)).toBeLessThan(60);
  });
});

const EMPTY: Record<string, Value> = { integer: 0n, text: '', dictionary: '', list: [] };

/** Sends rows; what they leave out is empty. */
async function send(connection: Connection, table: string, rows: readonly Record<string, Value>[]): Promise<void> {
  const existing = (await readServerColumns(connection)).get(table)!;
  const own = TABLES.find(({ name }) => name === table)!.columns.filter(
    ({ name, computed }) => !computed && existing.has(name),
  );
  const columns = own.map(({ name, type }) => {
    const empty = type.kind === 'fixed_text' ? '00'.repeat(type.bytes) : EMPTY[type.kind]!;
    return columnOf(
      name,
      formatTypeName(type),
      rows.map((row) => row[name] ?? empty),
    );
  });
  const block = createBlockEncoder().encode(columns, rows.length);
  await connection.insert({ table, columns: columns.map(({ name }) => name) }, () => [block]);
}
