/** Tests that values in statements reach a real server as they are, whatever they contain. */
import fc from 'fast-check';
import { type Connection, connect } from '../../agent/clickhouse/connection/connection.ts';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import {
  and,
  fixedText,
  identifier,
  integer,
  list,
  or,
  type Sql,
  sql,
  text,
} from '../../agent/clickhouse/statements/sql.ts';
import { columnOf, HOSTILE } from './columns.ts';
import { endServers, startServer } from './server.ts';

let connection: Connection;

beforeAll(async () => {
  const server = await startServer();
  connection = connect({ urls: [server.url], database: 'default' });
});
afterAll(async () => {
  connection?.close();
  await endServers();
});

describe('on a server', () => {
  test('any texts come back equal', async () => {
    const anyText = fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ unit: 'binary', maxLength: 200 }));
    await fc.assert(
      fc.asyncProperty(fc.array(anyText, { minLength: 1, maxLength: 50 }), async (texts) => {
        const parts = texts.map((one, i) => sql`${text(one)} AS ${identifier(`c${i}`)}`);
        const [row] = await rowsOf(connection, sql`SELECT ${list(parts)}`);
        expect(Object.values(row!)).toEqual(texts);
      }),
      { numRuns: 50 },
    );
  });

  test('hostile texts find their own rows and no others, in every kind of condition', async () => {
    await connection.run(
      sql`CREATE TABLE hostile (a LowCardinality(String), b String, n UInt32) ENGINE = MergeTree ORDER BY (a, n)`,
      { settings: { allow_experimental_low_cardinality_type: 1 } },
    );
    const texts = ['', ...HOSTILE];
    const block = createBlockEncoder().encode(
      [
        columnOf('a', 'LowCardinality(String)', texts),
        columnOf('b', 'String', texts),
        columnOf(
          'n',
          'UInt32',
          texts.map((_, i) => BigInt(i)),
        ),
      ],
      texts.length,
    );
    await connection.insert({ table: 'hostile', columns: ['a', 'b', 'n'] }, () => [block]);
    const found = async (condition: Sql) =>
      (await rowsOf(connection, sql`SELECT n FROM hostile WHERE ${condition} ORDER BY n`)).map(({ n }) => Number(n));
    for (const [i, one] of texts.entries()) {
      expect(await found(sql`a = ${text(one)}`)).toEqual([i]);
      expect(await found(sql`b IN (${text(one)}, ${text('not there')})`)).toEqual([i]);
      expect(await found(sql`a IN (${text(one)}, ${text('not there')})`)).toEqual([i]);
      expect(
        await found(and([sql`a = ${text(one)}`, or([sql`b = ${text('no')}`, sql`has([${text(one)}], b)`])])),
      ).toEqual([i]);
    }
    expect(await found(or([]))).toEqual([]);
    expect(await found(and([]))).toEqual(texts.map((_, i) => i));
  });

  test('numbers up to the extremes of each type come back, with that type', async () => {
    const values = [
      ['UInt64', 2n ** 64n - 1n],
      ['UInt64', 0n],
      ['Int64', -(2n ** 63n)],
      ['Int64', 2n ** 63n - 1n],
      ['UInt32', 2n ** 32n - 1n],
      ['Int32', -(2n ** 31n)],
      ['UInt8', 255n],
      ['Int8', -128n],
    ] as const;
    for (const [type, value] of values) {
      const [row] = await rowsOf(
        connection,
        sql`SELECT ${integer(type, value)} AS a, toTypeName(a) AS b, a = ${value} AS c`,
      );
      expect(row).toEqual({ a: value, b: type, c: 1n });
    }
  });

  test('negative numbers stay numbers behind a minus', async () => {
    for (const value of [-5, -5n, -1n, -(2n ** 63n) + 1n]) {
      const [row] = await rowsOf(connection, sql`SELECT toInt64(0-${value}) AS a, [1, ${value}][2] = ${value} AS same`);
      expect(row).toEqual({ a: -BigInt(value), same: 1n });
    }
  });

  test('a text of fixed length equals its column', async () => {
    const bytes = Buffer.from("\0'\\ab\xff".padEnd(16, '\0'), 'latin1');
    const [row] = await rowsOf(
      connection,
      sql`SELECT ${fixedText(bytes)} AS a, a = ${text(bytes)} AS same, toTypeName(a) AS type`,
    );
    expect(row).toEqual({ a: bytes.toString('hex'), same: 1n, type: 'FixedString(16)' });
  });
});

describe('what is not checked cannot become SQL', () => {
  test.each(['', '1a', 'a b', 'a`b', 'a;b', 'a.b', 'ä', 'a\0', 'a'.repeat(129)])('the name %j', (name) => {
    expect(() => identifier(name)).toThrow(/cannot be a name/);
  });

  test.each([1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60, 2n ** 64n, -(2n ** 63n) - 1n])(
    'the number %s',
    (value) => {
      expect(() => sql`SELECT ${value}`).toThrow(expect.objectContaining({ name: 'SqlError' }));
    },
  );

  test.each([
    ['UInt8', 256],
    ['UInt64', -1],
    ['Int64', 2n ** 63n],
  ] as const)('as %s the number %s', (type, value) => {
    expect(() => integer(type, value)).toThrow(/is no/);
  });

  test('a text, an object that looks like a part, and a list of texts', () => {
    expect(() => sql`SELECT ${'1' as unknown as Sql}`).toThrow(/must be made of SQL/);
    expect(() => sql`SELECT ${{ text: '1' } as unknown as Sql}`).toThrow(/must be made of SQL/);
    expect(() => sql`SELECT ${JSON.parse('{"text":"1"}') as Sql}`).toThrow(/must be made of SQL/);
    expect(() => sql(['DROP TABLE x'] as unknown as TemplateStringsArray)).toThrow(/written as a template/);
    expect(() => list([])).toThrow(/at least one/);
  });
});
