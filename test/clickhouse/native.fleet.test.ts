/** Tests that a real server reads our blocks, and that we read its blocks: every type, extremes and hostile texts. */
import fc from 'fast-check';
import { decodeBlocks } from '../../agent/clickhouse/native/decode.ts';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { parseType } from '../../agent/clickhouse/native/types.ts';
import { times } from '../repeats.ts';
import { anyValue, columnOf, HOSTILE, TYPE_NAMES, textsOf, type Value, valuesOf } from './columns.ts';
import { type ClickHouseServer, endServers, startServer } from './server.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startServer();
});
afterAll(endServers);

async function selected(statement: string): Promise<Value[][]> {
  const columns: Value[][] = [];
  const answer = await server.sql(`${statement} FORMAT Native`);
  async function* chunks() {
    yield answer;
  }
  for await (const { rowCount, columns: block } of decodeBlocks(chunks()))
    for (const [i, column] of [...block.values()].entries())
      columns[i] = [...(columns[i] ?? []), ...valuesOf(column, rowCount)];
  return columns;
}

describe('a table of 18.16', () => {
  test.each(TYPE_NAMES)('gives back what it got in a column of %s', async (typeName) => {
    const type = parseType(typeName);
    const random = fc.sample(anyValue(type), { seed: 1, numRuns: times(1000) });
    const extremes: Value[] = type.kind === 'text' || type.kind === 'dictionary' ? HOSTILE : [];
    const values = [...extremes, ...random];
    await server.sql('DROP TABLE IF EXISTS t');
    await server.sql(`CREATE TABLE t (row UInt32, a ${typeName}) ENGINE = MergeTree ORDER BY row`);
    const rows = columnOf(
      'row',
      'UInt32',
      values.map((_, row) => BigInt(row)),
    );
    const encoder = createBlockEncoder();
    const block = encoder.encode([rows, columnOf('a', typeName, values)], values.length);
    await server.sql('INSERT INTO t (row, a) FORMAT Native', block);
    expect(await selected('SELECT a FROM t ORDER BY row')).toEqual([values]);
  });

  test('takes many blocks in one insert, and blocks without rows', async () => {
    await server.sql('DROP TABLE IF EXISTS t');
    await server.sql('CREATE TABLE t (a LowCardinality(String), b Array(String)) ENGINE = MergeTree ORDER BY a');
    const encoder = createBlockEncoder();
    const blockOf = (...texts: string[]) =>
      encoder.encode(
        [
          columnOf('a', 'LowCardinality(String)', texts),
          columnOf(
            'b',
            'Array(String)',
            texts.map((text) => [text, '']),
          ),
        ],
        texts.length,
      );
    await server.sql(
      'INSERT INTO t FORMAT Native',
      Buffer.concat([blockOf('x', 'y', 'x'), blockOf(), blockOf('z', '')]),
    );
    expect(await selected('SELECT a, b FROM t ORDER BY a')).toEqual([
      ['', 'x', 'x', 'y', 'z'],
      [
        ['', ''],
        ['x', ''],
        ['x', ''],
        ['y', ''],
        ['z', ''],
      ],
    ]);
    const parts = await selected("SELECT toUInt64(count()) FROM system.parts WHERE table = 't' AND active");
    expect(parts).toEqual([[1n]]);
  });

  test('takes a dictionary with more than 65 536 texts, and one that has a text twice', async () => {
    await server.sql('DROP TABLE IF EXISTS t');
    await server.sql('CREATE TABLE t (row UInt32, a LowCardinality(String)) ENGINE = MergeTree ORDER BY row');
    const values = Array.from({ length: 70_000 }, (_, i) => `t${i}`);
    const encoder = createBlockEncoder();
    const rows = columnOf(
      'row',
      'UInt32',
      values.map((_, row) => BigInt(row)),
    );
    const many = encoder.encode([rows, columnOf('a', 'LowCardinality(String)', values)], values.length);
    await server.sql('INSERT INTO t FORMAT Native', many);
    expect(await selected('SELECT a FROM t ORDER BY row')).toEqual([values]);
    const { table } = textsOf(['a', 'b']);
    const twice = { table, ids: Uint8Array.of(1, 2, 1) };
    await server.sql(
      'INSERT INTO t FORMAT Native',
      encoder.encode(
        [
          columnOf('row', 'UInt32', [1n, 2n, 3n]),
          { name: 'a', type: parseType('LowCardinality(String)'), values: twice },
        ],
        3,
      ),
    );
    expect(await selected("SELECT toUInt64(count()) FROM t WHERE a = 'a'")).toEqual([[2n]]);
  });

  test('has a computed column in its key, from integers of 64 bits', async () => {
    await server.sql('DROP TABLE IF EXISTS t');
    await server.sql(
      `CREATE TABLE t (ts UInt64, bucket UInt32 MATERIALIZED toUInt32(intDiv(ts, 60000000000)))
       ENGINE = ReplacingMergeTree PARTITION BY intDiv(ts, 3600000000000) PRIMARY KEY bucket ORDER BY (bucket, ts)`,
    );
    const times = [59_999_999_999n, 60_000_000_000n, 1_800_000_000_000_000_000n, 2n ** 64n - 1n];
    await server.sql('INSERT INTO t FORMAT Native', createBlockEncoder().encode([columnOf('ts', 'UInt64', times)], 4));
    const buckets = times.map((time) => BigInt.asUintN(32, time / 60_000_000_000n));
    expect(await selected('SELECT bucket, ts FROM t ORDER BY ts')).toEqual([buckets, times]);
  });

  test('finds the highest bit of any duration', async () => {
    const values = [0n, 1n, 127n, 128n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n];
    const sql = values.map((value) => `toUInt64(roundToExp2(toUInt64(${value})))`).join(', ');
    expect((await selected(`SELECT [${sql}]`))[0]).toEqual([[0n, 1n, 64n, 128n, 2n ** 62n, 2n ** 63n, 2n ** 63n]]);
  });
});
