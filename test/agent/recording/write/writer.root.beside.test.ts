/** Tests a writer's guarantees: numbers, dictionaries, losses, a single writer, and no loss without a count. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { BATCH_SIZE } from '../../../../agent/recording/format/context_hash.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { SEAL_AFTER_NS, SEAL_ROWS_MIN } from '../../../../agent/recording/write/event_buffer.ts';
import { WAITING_SEGMENTS_MAX } from '../../../../agent/recording/write/writer.ts';
import { formatEventId, parseEventId } from '../../../../daemon/base/event_id.ts';
import { AS_NOBODY } from '../../../unprivileged.ts';
import { blockOf, numbersOf, type Row, rowsOf, START_NS, temporaryFolder, testWriter } from '../fixture.ts';

let folder: ReturnType<typeof temporaryFolder>;
let path: string;

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder.path, 'recording.kreplay');
});
afterEach(() => folder.remove());

const rows = (count: number, more: Row = {}): Row[] =>
  Array.from({ length: count }, (_, i) => ({ timestamp_ns: START_NS + BigInt(i), ...more }));

function segments(): { sealed: number; event_count: number }[] {
  const database = new Database(path, { readonly: true });
  const found = database.prepare('SELECT sealed, event_count FROM segment ORDER BY first_number').all();
  database.close();
  return found as { sealed: number; event_count: number }[];
}

function scanAll(): number[] {
  const reader = openReader(path);
  const numbers = numbersOf(reader.scan({}));
  reader.close();
  return numbers;
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

test('event ids are ordered as their numbers', () => {
  const ids = [0n, 9n, 10n, 2n ** 40n].map((number) => formatEventId('00000000000000ab', number));
  expect([...ids].sort()).toEqual(ids);
  expect(parseEventId(ids[3]!)).toEqual({ recordingId: '00000000000000ab', number: 2n ** 40n });
  expect([parseEventId('x'), parseEventId(`${ids[0]}0`)]).toEqual([undefined, undefined]);
});

test('parts become one segment when they are old enough', () => {
  const clock = { nowNs: START_NS };
  const writer = testWriter(path, clock);
  for (const count of [3, 5, 7]) {
    writer.append(blockOf(rows(count)));
    writer.flush();
  }
  writer.flush();
  expect(segments()).toEqual([3, 5, 7].map((event_count) => ({ sealed: 0, event_count })));
  clock.nowNs += SEAL_AFTER_NS;
  writer.append(blockOf(rows(2)));
  writer.flush();
  expect(segments()).toEqual([{ sealed: 1, event_count: 17 }]);
  writer.close();
  expect(scanAll().sort((a, b) => a - b)).toEqual(upTo(17));
});

test('a large flush is sealed immediately, and a block may be larger than a segment', () => {
  const writer = testWriter(path);
  writer.append(blockOf(rows(SEAL_ROWS_MIN)));
  writer.flush();
  writer.append(blockOf(rows(10_000)));
  writer.flush();
  expect(segments().map((segment) => segment.event_count)).toEqual([SEAL_ROWS_MIN, 4096, 4096, 1808]);
  writer.close();
});

test('numbers continue after a restart, even if no segment is left', () => {
  let writer = testWriter(path);
  writer.append(blockOf(rows(10)));
  writer.close();
  const database = new Database(path);
  database.exec('DELETE FROM segment');
  database.close();
  writer = testWriter(path);
  writer.append(blockOf(rows(1)));
  writer.close();
  expect(scanAll()).toEqual([10]);
});

test('dictionaries keep their ids across a restart', () => {
  let writer = testWriter(path);
  const context = { transactionId: 'tx', traceId: null, spanId: 's1' };
  const ids = () => [
    writer.nameId('shop'),
    writer.nameId(''),
    writer.fileId('/a', 'regular'),
    writer.fileId('/a', 'pipe'),
    writer.contextId(context),
    writer.contextId({ ...context, spanId: 's2' }),
    writer.contextId({ transactionId: null, traceId: null, spanId: null }),
  ];
  const first = ids();
  expect(first).toEqual([1, 0, 1, 2, 1, 2, 0]);
  writer.append(
    blockOf([
      { service: 1, context: 1 },
      { service: 1, context: 2, result: -5n },
    ]),
  );
  writer.close();
  writer = testWriter(path);
  expect(ids()).toEqual(first);
  writer.close();
  const reader = openReader(path);
  expect([
    reader.name(1),
    reader.name(0),
    reader.file(2),
    reader.file(9),
    reader.context(1),
    reader.context(0),
  ]).toEqual([
    'shop',
    '',
    { path: '/a', kind: 'pipe' },
    undefined,
    context,
    { transactionId: null, traceId: null, spanId: null },
  ]);
  expect(reader.services()).toEqual(['shop']);
  expect(reader.readTransaction('tx')).toMatchObject({ eventCount: 2, errorCount: 1, services: ['shop'] });
  reader.close();
});

test('a transaction is found among more contexts than a hash batch holds', () => {
  const writer = testWriter(path);
  const count = 2 * BATCH_SIZE + 10;
  for (let i = 0; i < count; i++) {
    const context = writer.contextId({ transactionId: `tx-${i}`, traceId: `trace-${i % 100}`, spanId: null });
    writer.append(blockOf([{ timestamp_ns: BigInt(i), context }]));
    if (i % 500 === 0) writer.flush();
  }
  writer.close();
  const reader = openReader(path);
  for (const i of [0, BATCH_SIZE - 1, BATCH_SIZE, 2 * BATCH_SIZE, count - 1]) {
    expect(numbersOf(reader.scan({ filter: { transactionId: `tx-${i}` } }))).toEqual([i]);
    expect(reader.readTransaction(`tx-${i}`)).toMatchObject({ eventCount: 1, firstTimestampNs: BigInt(i) });
  }
  expect(numbersOf(reader.scan({ filter: { traceId: 'trace-7' } }))).toHaveLength(Math.ceil((count - 7) / 100));
  const newest = reader.listTransactions({ limit: 2 });
  expect(newest.map(({ transactionId }) => transactionId)).toEqual([`tx-${count - 1}`, `tx-${count - 2}`]);
  expect(reader.listTransactions({ limit: 1, beforeKey: newest[1]!.key })[0]!.transactionId).toBe(`tx-${count - 3}`);
  reader.close();
});

test('a transaction is found among any number of contexts, and when old ones are kept', () => {
  const LONG_AGO = 2 ** 31;
  testWriter(path).close();
  const database = new Database(path);
  database.prepare('INSERT INTO context VALUES (?, 0, NULL, NULL, NULL)').run(LONG_AGO);
  database.prepare("INSERT OR REPLACE INTO meta VALUES ('hashed_contexts', ?)").run(BigInt(LONG_AGO));
  database.exec('INSERT INTO context_hash VALUES (5)');
  database.close();
  const writer = testWriter(path);
  for (let i = 0; i < BATCH_SIZE; i++) {
    const context = writer.contextId({ transactionId: `tx-${i}`, traceId: null, spanId: null });
    writer.append(blockOf([{ timestamp_ns: BigInt(i), context }]));
    if (i % 500 === 0) writer.flush();
  }
  writer.close();
  const reader = openReader(path);
  for (const i of [0, 17, BATCH_SIZE - 1]) {
    expect(numbersOf(reader.scan({ filter: { transactionId: `tx-${i}` } }))).toEqual([i]);
  }
  reader.close();
});

test('a writer leaves out a damaged part of its predecessor, reports it, and keeps the numbers of the others', () => {
  const writer = testWriter(path);
  for (const count of [10, 20, 30]) {
    writer.append(blockOf(rows(count)));
    writer.flush();
  }
  const left = join(folder.path, 'left.kreplay');
  const database = new Database(path);
  database.exec(`VACUUM INTO '${left}'`);
  database.close();
  writer.close();
  const copy = new Database(left);
  copy.exec('UPDATE segment SET data = zeroblob(length(data)) WHERE first_number = 10');
  copy.close();
  testWriter(left).close();
  const reader = openReader(left);
  expect(numbersOf(reader.scan({})).sort((a, b) => a - b)).toEqual([...upTo(10), ...upTo(30).map((i) => i + 30)]);
  expect(reader.losses().filter(({ cause }) => cause === 'damaged')).toMatchObject([{ count: 20 }]);
  reader.close();
});

test('losses and clock steps are recorded even without events', () => {
  const writer = testWriter(path);
  writer.recordLoss({ cause: 'ring_full', eventType: 'sys_write', count: 7, fromNs: 10n, toNs: 20n });
  writer.recordLoss({ cause: 'bad_record', eventType: null, count: 1, fromNs: 30n, toNs: 30n });
  writer.recordClock({ bootNs: 5n, offsetNs: -3n, kind: 'start', suspendedNs: 7n });
  writer.flush();
  const reader = openReader(path);
  expect(reader.losses().map((loss) => loss.count)).toEqual([7, 1]);
  expect(
    [reader.losses(20n, 30n), reader.losses(21n, 30n), reader.losses(0n, 10n)].map((found) => found.length),
  ).toEqual([1, 0, 0]);
  expect(reader.clockSteps()).toEqual([{ bootNs: 5n, offsetNs: -3n, kind: 'start', suspendedNs: 7n }]);
  reader.close();
  writer.close();
});

test('a second writer is refused at once, and accepted when the first has closed', () => {
  const writer = testWriter(path);
  expect(() => testWriter(path)).toThrow(expect.objectContaining({ code: 'recording_locked' }));
  writer.close();
  writer.close();
  testWriter(path).close();
});

test('a closed recording has no log beside it, so a user with read-only access can open it', () => {
  const writer = testWriter(path);
  writer.append(blockOf(rows(3)));
  writer.close();
  expect(() => statSync(`${path}-wal`)).toThrow();
  execFileSync('chmod', ['a+rx', folder.path]);
  const script = `import { openReader } from '${join(import.meta.dirname, '../../../../agent/recording/read/reader.ts')}';
    console.log(openReader('${path}').info().eventCount);`;
  const [command, ...args] = [...AS_NOBODY, process.execPath, '--input-type=module', '-e', script] as const;
  expect(execFileSync(command, args, { encoding: 'utf8' })).toBe('3\n');
});

describe('on a full disk', () => {
  let small: string;

  beforeEach(() => {
    small = join(folder.path, 'small');
    mkdirSync(small);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small]);
    path = join(small, 'recording.kreplay');
  });
  afterEach(() => {
    execFileSync('umount', [small]);
  });

  const fill = () => {
    for (const bytes of [65_536, 4096, 512]) {
      for (let i = 0; ; i++) {
        try {
          writeFileSync(join(small, `ballast-${bytes}-${i}`), Buffer.alloc(bytes));
        } catch {
          break;
        }
      }
    }
  };
  const free = () => execFileSync('sh', ['-c', `rm -f ${small}/ballast-*`]);

  test('a failed flush keeps everything for the next one', () => {
    const writer = testWriter(path);
    writer.append(blockOf(rows(5, { comm: writer.nameId('first') })));
    writer.flush();
    fill();
    writer.append(blockOf(rows(4500, { comm: writer.nameId('second') }).map((row, i) => ({ ...row, pid: i * 7919 }))));
    for (let i = 0; i < 3; i++)
      expect(() => writer.flush()).toThrow(expect.objectContaining({ code: 'recording_full' }));
    expect(scanAll()).toHaveLength(5);
    free();
    writer.flush();
    const reader = openReader(path);
    expect(numbersOf(reader.scan({})).sort((a, b) => a - b)).toEqual(upTo(4505));
    expect(numbersOf(reader.scan({ filter: { comms: ['second'] } }))).toHaveLength(4500);
    reader.close();
    writer.close();
  });

  test('events that do not fit into memory either are counted as lost', () => {
    const writer = testWriter(path);
    fill();
    const events = (WAITING_SEGMENTS_MAX + 3) * 4096;
    for (let i = 0; i < events; i += 4096) writer.append(blockOf(rows(4096)));
    free();
    writer.flush();
    writer.close();
    const stored = scanAll().length;
    const reader = openReader(path);
    const losses = reader.losses();
    reader.close();
    expect(losses).toMatchObject([{ cause: 'store_failed', eventType: 'sys_write', fromNs: START_NS }]);
    expect(stored + losses[0]!.count).toBe(events);
    expect(stored).toBeGreaterThanOrEqual((WAITING_SEGMENTS_MAX - 1) * 4096);
  });
});

test('rows of a paused scan outlive the deletion of its segments by the writer', () => {
  const writer = testWriter(path);
  writer.append(blockOf(rows(9000)));
  writer.flush();
  const reader = openReader(path);
  const scan = reader.scan({});
  const first = rowsOf(scan.next().value!);
  const database = new Database(path);
  database.exec('DELETE FROM segment');
  database.close();
  expect(first.length + [...scan].reduce((sum, block) => sum + block.rowCount, 0)).toBeLessThanOrEqual(9000);
  reader.close();
  writer.close();
  rmSync(path);
});
