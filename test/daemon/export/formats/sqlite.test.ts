/** Tests the plain database with SQLite's own command line. */
import { recorded, START } from '../../recorded.ts';
import { CORNER_ROWS, exported, I64_MAX, readWith, recordedEvents, U64_MAX } from '../exported.ts';

async function database(): Promise<(sql: string) => string[]> {
  const data = recorded(CORNER_ROWS, (writer) => {
    writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 3, fromNs: START, toNs: START + 9n });
    writer.recordClock({ bootNs: 5n, offsetNs: START - 5n, kind: 'start', suspendedNs: 0n });
  });
  const { path } = await exported(data, 'sqlite');
  return (sql) => readWith('sqlite3', ['-readonly', path, sql]).split('\n').slice(0, -1);
}

test('every value is exported exactly', async () => {
  const ask = await database();
  expect(ask('PRAGMA integrity_check')).toEqual(['ok']);
  expect(
    ask(`SELECT timestamp_ns, duration_ns, result, pid, cpu, fd, error FROM events ORDER BY timestamp_ns, event_id`),
  ).toEqual([
    `${START}|1234567|${-(2n ** 63n)}|4194303|65535|-1|errno 9223372036854775808`,
    `${START + 1n}|0|-28|100|0|1|ENOSPC`,
    `${START + 2n}|5|64|100|0|1|`,
    `${START + 3n}|100|64|100|0||`,
    `${START + 50n}|100|64|100|0||`,
    `${START + 103n}|1|64|100|0||`,
  ]);
  const hex = ask(`SELECT hex(file), hex(comm), hex(service_name) FROM events LIMIT 1`);
  const { file, comm, service_name: service } = recordedEvents(recorded(CORNER_ROWS))[0] as Record<string, string>;
  expect(hex).toEqual([
    [file, comm, service].map((text) => Buffer.from(text!).toString('hex').toUpperCase()).join('|'),
  ]);
});

test('a value beyond the integers of SQLite is text, and any other an integer', async () => {
  const ask = await database();
  expect(ask('SELECT bytes_requested, typeof(bytes_requested) FROM sys_write')).toEqual([
    `${U64_MAX - 1n}|text`,
    '|null',
    '|null',
  ]);
  expect(ask('SELECT bytes, typeof(bytes), typeof(sector) FROM block_io WHERE sector <> 0')).toEqual([
    `${I64_MAX}|integer|text`,
  ]);
  expect(ask('SELECT DISTINCT typeof(timestamp_ns), typeof(duration_ns), typeof(result) FROM events')).toEqual([
    'integer|integer|integer',
  ]);
});

test('a view has the rows and the columns of its type', async () => {
  const ask = await database();
  expect(ask('SELECT count(*) FROM sys_write')).toEqual(['3']);
  expect(ask("SELECT group_concat(name) FROM pragma_table_info('block_io')")[0]).toMatch(
    /,device,queued_by_service_name,queued_by_transaction_id,origins$/,
  );
  expect(ask("SELECT count(*) FROM pragma_table_info('block_io') WHERE name = 'fd'")).toEqual(['0']);
  expect(ask("SELECT json_extract(origins, '$[0].service_name') FROM block_io WHERE origins <> '[]'")).toEqual([
    'shop',
  ]);
});

test('losses and clock steps are included', async () => {
  const ask = await database();
  expect(ask('SELECT * FROM losses')).toEqual([`${START}|${START + 9n}|ring_full|sys_write|3`]);
  expect(ask('SELECT * FROM clock')).toEqual([`5|${START - 5n}|start|0`]);
});

test('windows and transactions are found through an index', async () => {
  const ask = await database();
  const plan = (condition: string) => ask(`EXPLAIN QUERY PLAN SELECT * FROM sys_write WHERE ${condition}`).join();
  expect(plan(`timestamp_ns >= ${START} AND timestamp_ns < ${START + 2n}`)).toContain('events_by_time');
  expect(plan("transaction_id = 'order-1'")).toContain('events_by_transaction');
});
