/** Tests that conditions which a scan takes over find the same rows as in a table of plain rows. */
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { EVENT_TYPES } from '../../../../bpf/schema/index.ts';
import { EVENT_COLUMNS, type FlatColumn, listTypeColumns } from '../../../../daemon/export/flat_columns.ts';
import { toStorable } from '../../../../daemon/export/formats/sqlite.ts';
import { openSource, type Source } from '../../../../daemon/export/source.ts';
import { askSql } from '../../../../daemon/export/sql/sql_query.ts';
import { readBlockEvents } from '../../../../daemon/store/blocks/event.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { CORNER_ROWS, I64_MAX, U64_MAX } from '../exported.ts';

const SERVICES = ['shop', 'SHOP', 'cart', "o'hara", ''];
const TRANSACTIONS = ['order-1', 'order-2', 'order-3'];
const COMMS = ['node', 'NODE', 'java'];
const RESULTS = [-28n, -5n, -1n, 0n, 1n, 64n, I64_MAX, -(2n ** 63n)];
const DURATIONS = [0n, 1n, 999n, 1000n, 1001n, I64_MAX, 2n ** 63n, U64_MAX];
const PIDS = [0, 1, 100, 2 ** 32 - 1];

/** All combinations come about, without a random generator that would hide a failure. */
const pick = <Item>(items: readonly Item[], at: number): Item => items[at % items.length]!;

const ROWS: readonly Row[] = [
  ...CORNER_ROWS,
  ...Array.from({ length: 600 }, (_, i): Row => {
    const common = {
      at: START + 1000n + BigInt((i * 7919) % 600),
      duration: pick(DURATIONS, i * 5),
      service: pick(SERVICES, i * 3),
      comm: pick(COMMS, i),
      pid: pick(PIDS, i * 7),
      result: pick(RESULTS, i * 11),
      ...(i % 3 === 0 ? {} : { transaction: pick(TRANSACTIONS, i), trace: `${i % 5}`.repeat(32) }),
    };
    if (i % 4 === 1) {
      const origins = [{ service: 'cart', transaction: 'order-2', bytes: 4096n }];
      return { ...common, type: 'block_io', device: pick(['vda', 'sdb'], i), bytes: 4096n, origins };
    }
    if (i % 4 === 2) return { ...common, type: 'sys_sync', file: `/data/${i % 9}`, fd: i % 6 };
    return { ...common, file: `/data/${i % 9}`, fd: i % 6, requested: pick(DURATIONS, i) };
  }),
];

const TABLES = new Map<string, readonly FlatColumn[]>([
  ['events', EVENT_COLUMNS],
  ...EVENT_TYPES.map((type) => [type, listTypeColumns(type)] as const),
]);

let source: Source;
let plain: Database.Database;

beforeAll(() => {
  source = openSource(recorded(ROWS));
  plain = new Database(':memory:').defaultSafeIntegers(true);
  for (const [table, columns] of TABLES) {
    // Columns without a type compare as those of a virtual table.
    plain.exec(`CREATE TABLE ${table} (${columns.map(({ name }) => `"${name}"`).join(', ')})`);
    const insert = plain.prepare(`INSERT INTO ${table} VALUES (${columns.map(() => '?').join(', ')})`);
    for (const scanned of source.scan({})) {
      for (const event of readBlockEvents(scanned)) {
        if (table === 'events' || event.event_type === table)
          insert.run(columns.map(({ getValue }) => toStorable(getValue(event))));
      }
    }
  }
});

afterAll(() => {
  source.close();
  plain.close();
});

const texts = (rows: Iterable<unknown[]>) =>
  Array.from(rows, (row) =>
    row.map((value) => `${value === null ? 'null' : typeof value} ${String(value)}`).join(' | '),
  );

function asked(sql: string): string[] {
  const answer = askSql(source, sql, START);
  try {
    return texts(answer.rows);
  } finally {
    answer.close();
  }
}

const ofPlain = (sql: string) => texts(plain.prepare<[], unknown[]>(sql).raw().all());

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
const anyText = fc.constantFrom(
  ...[...SERVICES, ...TRANSACTIONS, ...COMMS, ...EVENT_TYPES].map(literal),
  ...['test-node', '/data/3', 'vda', 'ENOSPC', '1'.repeat(32), 'nothing', '100'].map(literal),
);
const anyInteger = fc.constantFrom(
  ...[...RESULTS, ...DURATIONS.filter((duration) => duration <= I64_MAX), ...PIDS.map(BigInt)].map(String),
  ...[START, START + 1300n, START + 1599n, -START, 4n, 2n ** 32n].map(String),
);
const anyReal = fc.constantFrom('0.5', '-0.5', '99.5', '100.0', '1e3', '1000.5', '-28.5', '1e300', '-9e999', '9e999');
const anyValue = fc.oneof(
  { weight: 4, arbitrary: anyText },
  { weight: 4, arbitrary: anyInteger },
  { weight: 2, arbitrary: anyReal },
  { weight: 1, arbitrary: fc.constantFrom('NULL', "x'00'", '1 + 1', "lower('SHOP')", "'SHOP' COLLATE NOCASE") },
);

const anyComparison = (column: string) =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc
        .tuple(fc.constantFrom('=', '<>', '<', '<=', '>', '>=', 'IS', 'IS NOT', 'LIKE'), anyValue)
        .map(([operator, value]) => `${column} ${operator} ${value}`),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom('IN', 'NOT IN'), fc.array(anyValue, { maxLength: 4 }))
        .map(([operator, values]) => `${column} ${operator} (${values.join(', ')})`),
    },
    {
      weight: 1,
      arbitrary: fc.tuple(anyValue, anyValue).map(([from, to]) => `${column} BETWEEN ${from} AND ${to}`),
    },
    { weight: 1, arbitrary: fc.constantFrom(`${column} IS NULL`, `${column} IS NOT NULL`) },
  );

/** Columns with conditions that a scan can take over; they come more often. */
const PUSHED = ['event_type', 'timestamp_ns', 'duration_ns', 'pid', 'result', 'comm', 'transaction_id', 'service_name'];

const anyQuestion = fc.constantFrom(...TABLES.keys()).chain((table) => {
  const names = TABLES.get(table)!.map(({ name }) => name);
  const column = fc.oneof(fc.constantFrom(...PUSHED), fc.constantFrom(...names));
  const condition = column.chain(anyComparison);
  return fc.record({
    table: fc.constant(table),
    columns: fc.oneof(fc.constant(['*']), fc.uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 5 })),
    conditions: fc.array(condition, { maxLength: 4 }),
    glue: fc.constantFrom(' AND ', ' AND ', ' AND ', ' OR '),
  });
});

test('any conditions find the rows that they find in a plain table', () => {
  fc.assert(
    fc.property(anyQuestion, ({ table, columns, conditions, glue }) => {
      const where = conditions.length > 0 ? `WHERE ${conditions.join(glue)}` : '';
      const sql = `SELECT ${columns.join(', ')} FROM ${table} ${where}`;
      expect(asked(sql).sort()).toEqual(ofPlain(sql).sort());
    }),
    { numRuns: 2000 },
  );
});

test('any groups have the sums that they have in a plain table', () => {
  const group = fc.constantFrom('service_name', 'event_type', 'error', 'file', 'pid', 'transaction_id', 'syscall');
  fc.assert(
    fc.property(group, group, fc.constantFrom(...PUSHED).chain(anyComparison), (first, second, condition) => {
      const sums = 'count(*), count(error), max(result), min(duration_ns), total(fd)';
      const sql = `SELECT ${first}, ${second}, ${sums} FROM events WHERE ${condition} GROUP BY 1, 2 ORDER BY 1, 2`;
      expect(asked(sql)).toEqual(ofPlain(sql));
    }),
    { numRuns: 500 },
  );
});

test.each([
  'SELECT timestamp_ns, event_id FROM events ORDER BY timestamp_ns',
  'SELECT timestamp_ns FROM sys_write WHERE pid = 100 ORDER BY timestamp_ns DESC LIMIT 20',
  'SELECT timestamp_ns FROM events ORDER BY timestamp_ns DESC LIMIT 5 OFFSET 7',
  "SELECT timestamp_ns FROM events WHERE service_name IN ('cart', 'shop') ORDER BY timestamp_ns",
  'SELECT duration_ns, event_id FROM events ORDER BY 1 DESC, 2 LIMIT 9',
  'SELECT DISTINCT service_name FROM events ORDER BY service_name DESC',
  'SELECT a.event_id, b.duration_ns FROM events a JOIN events b USING (event_id) ORDER BY 1',
  "SELECT count(*) FROM block_io b JOIN events e ON e.transaction_id = b.transaction_id AND e.comm = 'java'",
  'SELECT count(*), sum(o.bytes) FROM block_io, json_each(origins) j, (SELECT 1 AS bytes) o',
  'SELECT e.pid, (SELECT count(*) FROM sys_sync s WHERE s.pid = e.pid) FROM events e GROUP BY 1 ORDER BY 1',
  'SELECT count(*) FROM events e LEFT JOIN sys_sync s ON s.event_id = e.event_id WHERE s.event_id IS NULL',
])('%s', (sql) => {
  const ordered = /ORDER BY/.test(sql);
  const [mine, theirs] = [asked(sql), ofPlain(sql)];
  expect(ordered ? mine : mine.sort()).toEqual(ordered ? theirs : theirs.sort());
});

test('a parameter holds beside any other condition', () => {
  const [id] = asked("SELECT event_id FROM events WHERE of_transaction = 'order-2' LIMIT 1");
  const text = id!.split(' ')[1];
  expect(asked(`SELECT count(*) FROM events WHERE event_id = '${text}' AND of_transaction = 'order-2'`)).toEqual([
    'bigint 1',
  ]);
  expect(asked(`SELECT count(*) FROM events WHERE event_id = '${text}' AND of_transaction = 'order-9'`)).toEqual([
    'bigint 0',
  ]);
  const parts = asked("SELECT count(*) FROM events WHERE of_service = 'cart' AND service_name = 'shop'");
  const plainParts = `SELECT count(*) FROM events WHERE service_name = 'shop' AND origins LIKE '%"cart"%'`;
  expect(parts).toEqual(ofPlain(plainParts));
});

/** What the plan passes on: order and conditions. */
function planOf(sql: string): string {
  const answer = askSql(source, `EXPLAIN QUERY PLAN ${sql}`, START);
  try {
    return [...answer.rows].map((row) => String(row[3])).join('; ');
  } finally {
    answer.close();
  }
}

test.each([
  ['SELECT count(*) FROM events', /:none 0$/],
  ['SELECT count(*) FROM events WHERE duration_ns > 1e6', /duration_ns>/],
  ["SELECT pid FROM events WHERE service_name = 'shop' AND pid = 7 AND result < 0", /service_name= pid= result</],
  ["SELECT pid FROM events WHERE service_name IN ('shop', 'cart') ORDER BY timestamp_ns", /:asc .* service_namei$/],
  ['SELECT max(timestamp_ns) FROM events WHERE timestamp_ns BETWEEN 1 AND 2', /timestamp_nsg timestamp_nsl/],
  ["SELECT pid FROM events WHERE service_name = 'shop' COLLATE NOCASE", /:asc [0-9a-f]+$/],
  ['SELECT pid FROM events WHERE pid IN (1, 2) ORDER BY timestamp_ns DESC', /:desc [0-9a-f]+$/],
])('%s passes its conditions on', (sql, plan) => {
  expect(planOf(sql)).toMatch(plan);
});

test('what is thrown while rows are made is the reason that is given', () => {
  expect(() => asked("SELECT * FROM events WHERE since = 'yesterday'")).toThrow(/since: /);
  const failing = {
    ...source,
    reader: {
      ...source.reader,
      *scan() {
        yield* [];
        throw new Error('the disk is gone');
      },
    },
  };
  const answer = askSql(failing as Source, 'SELECT pid FROM events', START);
  expect(() => [...answer.rows]).toThrow('the disk is gone');
  answer.close();
});
