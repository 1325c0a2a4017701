/** Tests `kreplay sql`: queries on a recording, and statements that it refuses. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openSource } from '../../../../daemon/export/source.ts';
import { askSql } from '../../../../daemon/export/sql/sql_query.ts';
import { start } from '../../command_line.ts';
import { hosted } from '../../hosted.ts';
import { NODE, newFolder, type Row, recorded, recordingPath, START } from '../../recorded.ts';
import { I64_MAX, U64_MAX } from '../exported.ts';

const NOW = START + 60_000_000_000n;

const ROWS: readonly Row[] = [
  { at: START, service: 'shop', transaction: 'order-1', comm: 'node', result: 10n, requested: U64_MAX - 1n },
  { at: START + 1n, service: 'cart', transaction: 'order-2', comm: 'cart', result: -28n, fd: 7 },
  { at: START + 30_000_000_000n, service: 'shop', transaction: 'order-1', comm: 'node', result: 2n ** 53n + 1n },
  { type: 'block_io', at: START + 40_000_000_000n, service: 'shop', bytes: I64_MAX, device: 'vda' },
];

const data = { folder: '' };
beforeAll(() => {
  data.folder = recorded(ROWS, (writer) => {
    writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START, toNs: START + 9n });
    const shed = { cause: 'shed', service: 'shop', eventType: 'sys_write', count: 5 } as const;
    const sums = { bytes: 7n, durationNs: 8n, longestNs: 6n };
    const lost = { ...shed, sums, fromNs: START, toNs: START + 9n };
    writer.recordLoss(lost, [{ ...lost, transactionId: 'order', count: 4 }]);
    writer.recordClock({ bootNs: 5n, offsetNs: START - 5n, kind: 'start', suspendedNs: 0n });
  });
});

function ask(sql: string): unknown[][] {
  const source = openSource(data.folder);
  const answer = askSql(source, sql, NOW);
  try {
    return [...answer.rows].map((row) => [...row]);
  } finally {
    answer.close();
    source.close();
  }
}

test('events are rows, and 64-bit integers are exact', () => {
  expect(ask('SELECT timestamp_ns, comm, result, error FROM events ORDER BY timestamp_ns')).toEqual([
    [START, 'node', 10n, null],
    [START + 1n, 'cart', -28n, 'ENOSPC'],
    [START + 30_000_000_000n, 'node', 2n ** 53n + 1n, null],
    [START + 40_000_000_000n, 'node', 64n, null],
  ]);
  expect(ask('SELECT bytes_requested, typeof(bytes_requested) FROM sys_write LIMIT 2')).toEqual([
    [`${U64_MAX - 1n}`, 'text'],
    [null, 'null'],
  ]);
  expect(ask('SELECT bytes, device FROM block_io')).toEqual([[I64_MAX, 'vda']]);
});

test('a table of a type has only its columns', () => {
  expect(ask("SELECT count(*) FROM pragma_table_info('sys_write') WHERE name IN ('fd', 'device')")).toEqual([[1n]]);
  expect(() => ask('SELECT device FROM sys_write')).toThrow('sql: no such column: device');
});

test.each([
  ['SELECT "pid", `tid`, [COMM], e.Cpu FROM events AS e WHERE "result" = 10', [100n, 100n, 'node', 0n]],
  ['SELECT count(*), max(fd) FROM events', [4n, 7n]],
  ['SELECT count(*) FROM events AS a JOIN events AS b USING (event_id, comm)', [4n]],
  ['SELECT sum(e.cpu), count(DISTINCT x.service_name) FROM events e, (SELECT * FROM events) x', [0n, 2n]],
])('columns are found in any notation: %s', (sql, row) => {
  expect(ask(sql)).toEqual([row]);
});

test.each([
  ["SELECT count(*) FROM events('order-1')", 2n],
  ["SELECT count(*) FROM events WHERE of_transaction = 'order-2'", 1n],
  ["SELECT count(*) FROM events WHERE of_service = 'shop'", 3n],
  ["SELECT count(*) FROM sys_write WHERE of_service = 'shop' AND since = '-45s'", 1n],
  ["SELECT count(*) FROM events WHERE since = '2025-11-21T00:00:00.000000001Z' AND until = '-30s'", 1n],
  [`SELECT count(*) FROM events WHERE since = ${START + 1n}`, 3n],
  ["SELECT count(*) FROM events('nothing')", 0n],
  ["SELECT count(*) FROM events('NULL', '-45s')", 0n],
  ['SELECT count(*) FROM block_io b JOIN events e ON e.of_transaction = b.transaction_id', 0n],
])('%s is %s', (sql, count) => {
  expect(ask(sql)).toEqual([[count]]);
});

test('transactions, losses and clock steps are tables too', () => {
  const [newest, first] = ask('SELECT * FROM transactions');
  expect(newest!.slice(0, 7)).toEqual(['order-2', null, START + 1n, START + 1001n, 1000n, 1n, 1n]);
  // Columns of newer formats come last, so that the others keep their positions.
  expect(newest!.slice(-3)).toEqual([0n, 0n, null]);
  expect([first![0], first![5], first![9]]).toEqual(['order-1', 2n, '["shop"]']);
  const unknown = [null, null, null, null, null];
  expect(ask('SELECT * FROM losses')).toEqual([
    [START, START + 9n, 'ring_full', null, 3n, ...unknown],
    [START, START + 9n, 'shed', 'sys_write', 5n, 'shop', null, 7n, 8n, 6n],
    [START, START + 9n, 'shed', 'sys_write', 4n, 'shop', 'order', 7n, 8n, 6n],
  ]);
  expect(ask('SELECT * FROM clock')).toEqual([[5n, START - 5n, 'start', 0n]]);
  expect(
    ask('SELECT t.event_count, sum(e.result) FROM transactions t JOIN events e USING (transaction_id) GROUP BY 1'),
  ).toEqual([
    [1n, -28n],
    [2n, 2n ** 53n + 11n],
  ]);
});

test.each(["SELECT * FROM events(NULL, '-45s')", "SELECT * FROM sys_write ( 'order-1', null)"])(
  'NULL as an argument is reported: %s',
  (sql) => {
    expect(() => ask(sql)).toThrow("sql: NULL equals nothing: name what is given, as in events WHERE since = '-15m'");
  },
);

const FILE = join(newFolder(), 'written.db');

test.each([
  `ATTACH '${FILE}' AS other`,
  `/* SELECT */ ATTACH '${FILE}' AS other`,
  `/**/ATTACH '${FILE}' AS /**/ with`,
  `-- SELECT\nATTACH '${FILE}' AS other`,
  `; ATTACH '${FILE}' AS other`,
  `SELECT 1; ATTACH '${FILE}' AS other`,
  `EXPLAIN ATTACH '${FILE}' AS other`,
  `VACUUM INTO '${FILE}'`,
  `PRAGMA journal_mode = DELETE`,
  `EXPLAIN PRAGMA temp_store_directory = '/'`,
  `SELECT writefile('${FILE}', 'x')`,
  `SELECT load_extension('${FILE}')`,
  `SELECT readfile('/etc/passwd')`,
  `CREATE TABLE t (x)`,
  `WITH a AS (SELECT 1) INSERT INTO events SELECT * FROM a`,
  `WITH a AS (SELECT 1) DELETE FROM events RETURNING 1`,
  `SELECT * FROM pragma_journal_mode('x')`,
  '',
  'SELECT ?',
  'SELEC 1',
])('%j is refused, and nothing is written', (sql) => {
  expect(() => ask(sql)).toThrow(/^sql: .+/);
  expect(existsSync(FILE)).toBe(false);
});

test.each(['  select 1', '-- first\n/* then */ select 1;', 'VALUES (1)', 'WITH a AS (SELECT 1) SELECT * FROM a'])(
  '%j is a query',
  (sql) => {
    expect(ask(sql)).toEqual([[1n]]);
  },
);

test('a query leaves the recording and its folder unchanged', async () => {
  const before = [readdirSync(data.folder), readFileSync(recordingPath(data.folder))];
  await hosted('sql', '--data', data.folder, 'select * from events order by comm');
  expect([readdirSync(data.folder), readFileSync(recordingPath(data.folder))]).toEqual(before);
});

describe('the command', () => {
  const sql = (...args: string[]) => hosted('sql', '--data', data.folder, ...args);
  const QUERY = "select result, node as 'a,b', x'00ff' as bytes, null as n from sys_write where failed is null limit 2";
  const ASKED = QUERY.replace(' where failed is null', '');

  test.each([
    [
      'ndjson',
      `{"result":10,"a,b":"${NODE}","bytes":"x'00ff'","n":null}\n{"result":-28,"a,b":"${NODE}","bytes":"x'00ff'","n":null}\n`,
    ],
    [
      'json',
      `[\n{"result":10,"a,b":"${NODE}","bytes":"x'00ff'","n":null},\n{"result":-28,"a,b":"${NODE}","bytes":"x'00ff'","n":null}\n]\n`,
    ],
    ['csv', `result,"a,b",bytes,n\r\n10,${NODE},x'00ff',\r\n-28,${NODE},x'00ff',\r\n`],
    ['table', `result  a,b        bytes    n\n10      ${NODE}  x'00ff'\n-28     ${NODE}  x'00ff'\n`],
  ])('prints %s', async (format, text) => {
    const { code, stdout, stderr } = await sql('--format', format, ASKED);
    expect([code, stdout, stderr]).toEqual([0, text, '']);
  });

  test('infinity is printed as text', async () => {
    const query = 'select 9e999 as a, -9e999 as b';
    expect((await sql(query)).stdout).toBe('{"a":"Infinity","b":"-Infinity"}\n');
    expect((await sql('--format', 'json', query)).stdout).toBe('[\n{"a":"Infinity","b":"-Infinity"}\n]\n');
    expect((await sql('--format', 'csv', query)).stdout).toBe('a,b\r\nInfinity,-Infinity\r\n');
  });

  test('two columns of one name are both printed', async () => {
    const twice = 'select a.pid, b.pid from events a join events b using (event_id) limit 1';
    expect((await sql(twice)).stdout).toBe('{"pid":100,"pid":100}\n');
  });

  test('an answer without rows is complete in every format', async () => {
    const answers = await Promise.all(
      ['ndjson', 'json', 'csv', 'table'].map((format) =>
        sql('--format', format, 'select pid from events where pid = 1'),
      ),
    );
    expect(answers.map(({ stdout }) => stdout)).toEqual(['', '[\n]\n', 'pid\r\n', 'pid\n']);
  });

  test('an error is one line and exit code 1', async () => {
    const { code, stdout, stderr } = await sql(QUERY);
    expect([code, stdout, stderr]).toEqual([1, '', 'kreplay: sql: no such column: failed\n']);
    const late = await sql("select * from events where since = 'yesterday'");
    expect([late.code, late.stderr]).toEqual([1, expect.stringMatching(/^kreplay: since: must be RFC 3339.*\n$/)]);
  });

  test('a reader that stops early ends the query', async () => {
    const endless = 'with recursive n(i) as (select 1 union all select i + 1 from n) select i, hex(i) from n';
    const { child, printed, ended } = start('sql', '--data', data.folder, endless);
    await printed(/"i":1,/);
    child.stdout!.destroy();
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
  });

  test('a named recording is read instead of a folder', async () => {
    const path = recordingPath(data.folder);
    expect((await hosted('sql', '--recording', path, 'select count(*) as n from events')).stdout).toBe('{"n":4}\n');
    const both = await hosted('sql', '--recording', path, '--data', data.folder, 'select 1');
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('cannot be used with')]);
    const twice = await hosted('sql', '--recording', path, '--recording', path, 'select 1');
    expect([twice.code, twice.stdout, twice.stderr]).toEqual([2, '', expect.stringContaining('only one can be read')]);
    const empty = join(newFolder(), 'empty');
    mkdirSync(empty);
    const missing = await hosted('sql', '--data', empty, 'select 1');
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('there is no recording at')]);
  });
});
