/** Tests statements to a real server: answers, blocks into tables, errors and what they mean. */
import { setTimeout as sleep } from 'node:timers/promises';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { columnOf } from './columns.ts';
import { closeAll, connectedTo, errorOf, one } from './connected.ts';
import { type ClickHouseServer, endServers, startServer } from './server.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startServer();
});
afterEach(closeAll);
afterAll(endServers);

const connected = (settings: Partial<ConnectionSettings> = {}) => connectedTo(server.url, settings);

describe('statements', () => {
  test('give typed rows, and blocks into tables come back, plain and packed', async () => {
    const connection = connected();
    await connection.run(sql`CREATE TABLE rows (a UInt64, b String) ENGINE = MergeTree ORDER BY a`);
    const encoder = createBlockEncoder();
    const blocks = [0n, 1n, 2n].map((a) =>
      encoder.encode([columnOf('a', 'UInt64', [a]), columnOf('b', 'String', [`text ${a}`])], 1),
    );
    await connection.insert({ table: 'rows', columns: ['a', 'b'] }, () => blocks);
    await connection.insert({ table: 'rows', columns: ['a', 'b'] }, () => blocks, { compression: 'gzip' });
    const sums = await rowsOf(
      connection,
      sql`SELECT b, sum(a) AS a, toUInt32(count()) AS n FROM rows GROUP BY b ORDER BY b`,
    );
    expect(sums).toEqual([
      { b: 'text 0', a: 0n, n: 2n },
      { b: 'text 1', a: 2n, n: 2n },
      { b: 'text 2', a: 4n, n: 2n },
    ]);
  });

  test.each([
    ['no such table', sql`SELECT * FROM missing`, 60, 'blocked', /kreplay fleet init/],
    ['no such column', sql`SELECT missing FROM system.one`, 47, 'blocked', /kreplay fleet upgrade/],
    ['words that are no SQL', sql`SELEC`, 62, 'blocked', /does not understand/],
    [
      'an error that has no meaning of its own',
      sql`SELECT throwIf(number = 2) FROM system.numbers LIMIT 3`,
      395,
      'wait',
      /throwIf/,
    ],
  ])('%s is an error with what to do', async (_, statement, code, meaning, advice) => {
    const error = await errorOf(rowsOf(connected(), statement));
    expect(error).toMatchObject({ code, meaning, message: expect.stringMatching(advice) });
    expect(error.message).toContain(server.url);
  });

  test('an error in the midst of an answer of status 200 is found, after the rows before it', async () => {
    const statement = sql`SELECT number, throwIf(number = 3000000) AS thrown FROM system.numbers LIMIT 10000000`;
    let rows = 0;
    async function read(options: { whole?: boolean }): Promise<void> {
      rows = 0;
      for await (const { rowCount } of connected().select(statement, options)) rows += rowCount;
    }
    expect(await errorOf(read({}))).toMatchObject({ code: 395, message: expect.stringContaining('throwIf') });
    expect(rows).toBeGreaterThan(0);
    expect(await errorOf(read({ whole: true }))).toMatchObject({ code: 395 });
    expect(rows).toBe(0);
  });

  test('an endless answer ends on the server when the caller wants no more', async () => {
    const connection = connected();
    for await (const { rowCount } of connection.select(sql`SELECT number FROM system.numbers`)) {
      expect(rowCount).toBeGreaterThan(0);
      break;
    }
    const running = sql`SELECT toUInt64(count()) AS n FROM system.processes WHERE query LIKE 'SELECT number FROM system.numbers%'`;
    for (let tries = 0; tries < 100; tries++) {
      if ((await rowsOf(connection, running))[0]!.n === 0n) return;
      await sleep(50);
    }
    throw new Error('the statement goes on');
  });

  test('an aborted statement throws what its signal says', async () => {
    const abort = new AbortController();
    const reason = new Error('enough');
    const reading = rowsOf(connected(), sql`SELECT sum(number) AS n FROM system.numbers`, { signal: abort.signal });
    setTimeout(() => abort.abort(reason), 50);
    await expect(reading).rejects.toBe(reason);
    await expect(rowsOf(connected(), one, { signal: abort.signal })).rejects.toBe(reason);
  });

  test('an error of the blocks that a caller sends is the caller’s own', async () => {
    const connection = connected();
    await connection.run(sql`CREATE TABLE IF NOT EXISTS own (a UInt64) ENGINE = MergeTree ORDER BY a`);
    const own = Object.assign(new Error('the file cannot be read'), { code: 'EIO' });
    async function* failing() {
      yield createBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);
      throw own;
    }
    for (const compression of ['none', 'gzip'] as const)
      await expect(connection.insert({ table: 'own', columns: ['a'] }, failing, { compression })).rejects.toBe(own);
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
  });

  test('a table that has other columns refuses blocks with its own words, and a killed server cuts them', async () => {
    const connection = connected();
    await connection.run(sql`CREATE TABLE IF NOT EXISTS other (b String) ENGINE = MergeTree ORDER BY b`);
    const many = createBlockEncoder().encode([columnOf('a', 'UInt64', Array<bigint>(65_536).fill(1n))], 65_536);
    let [count, isEndless] = [0, false];
    function* blocks() {
      for (count = 0; isEndless || count < 100; count++) yield many;
    }
    expect(await errorOf(connection.insert({ table: 'other', columns: ['a'] }, blocks))).toMatchObject({
      code: expect.any(Number),
    });
    await connection.run(sql`CREATE TABLE IF NOT EXISTS cut (a UInt64) ENGINE = Null`);
    [count, isEndless] = [0, true];
    const inserting = errorOf(connected().insert({ table: 'cut', columns: ['a'] }, blocks));
    while (count < 20) await sleep(5);
    await server.kill();
    expect(await inserting).toMatchObject({ code: 'cut', meaning: 'repeat' });
    await server.restart();
  });

  test('a refused insert says why, though the server reads all of its blocks first', async () => {
    const connection = connected();
    const block = createBlockEncoder().encode([columnOf('a', 'UInt64', Array<bigint>(100_000).fill(1n))], 100_000);
    let sent = 0;
    function* blocks() {
      for (sent = 0; sent < 100; sent++) yield block;
    }
    const error = await errorOf(connection.insert({ table: 'never_made', columns: ['a'] }, blocks));
    expect(error).toMatchObject({ code: 60, meaning: 'blocked' });
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
  });

  test('a kept connection that the server has closed is opened again', async () => {
    const connection = connected();
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
    await server.kill();
    await server.restart();
    expect(await rowsOf(connection, one)).toEqual([{ one: 1n }]);
  });
});

describe('a setting that the server does not know', () => {
  test('of a statement or of a table needs an operator', async () => {
    const connection = connected();
    const unknown = { settings: { no_such_setting: 1 } };
    expect(await errorOf(rowsOf(connection, one, unknown))).toMatchObject({ code: 115, meaning: 'blocked' });
    const create = sql`CREATE TABLE unmade (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS no_such_setting = 1`;
    expect(await errorOf(connection.run(create))).toMatchObject({ code: 36, meaning: 'blocked' });
  });
});

describe('a limit of the server', () => {
  test('of memory and of time means to wait', async () => {
    const sorted = sql`SELECT number FROM (SELECT number FROM numbers(10000000) ORDER BY sipHash64(number)) LIMIT 1`;
    const short = { settings: { max_memory_usage: 10_000_000 } };
    expect(await errorOf(rowsOf(connected(), sorted, short))).toMatchObject({ code: 241, meaning: 'wait' });
    const endless = sql`SELECT sum(number) AS n FROM system.numbers`;
    const brief = { settings: { max_execution_time: 1 } };
    expect(await errorOf(rowsOf(connected(), endless, brief))).toMatchObject({ code: 159, meaning: 'wait' });
  });

  test('of parts means to wait until they are merged', async () => {
    const connection = connected();
    await connection.run(
      sql`CREATE TABLE parts (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS parts_to_delay_insert = 1, parts_to_throw_insert = 1, max_bytes_to_merge_at_max_space_in_pool = 1`,
    );
    const block = createBlockEncoder().encode([columnOf('a', 'UInt64', [1n])], 1);
    const send = () => connection.insert({ table: 'parts', columns: ['a'] }, () => [block]);
    const error = await errorOf(
      (async () => {
        for (let i = 0; i < 10; i++) await send();
      })(),
    );
    expect(error).toMatchObject({
      code: 252,
      meaning: 'wait',
      message: expect.stringMatching(/merges do not keep up/),
    });
  });
});
