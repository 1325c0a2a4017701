/** Tests `kreplay transactions`, `services`, `stats` and `tail` against a daemon and against a file. */
import { formatTime } from '../../../daemon/base/time_text.ts';
import { kreplay, start } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, recordingPath, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

const SECOND = 1_000_000_000n;

const rows: Row[] = Array.from({ length: 60 }, (_, i) => ({
  at: START - 600n * SECOND + BigInt(i) * SECOND,
  duration: BigInt(1 + (i % 6)) * 1_000_000n,
  transaction: `order-${i % 6}`,
  service: i % 2 ? 'db' : 'shop',
  result: i % 6 === 5 ? -28n : 64n,
}));

let folder: string;
let app: Served;
beforeAll(async () => {
  folder = recorded(rows);
  app = await serve(folder);
});
afterAll(() => app.close());

const PLACES: [string, () => string[]][] = [
  ['a daemon', () => ['--url', app.url]],
  ['a file', () => ['--recording', recordingPath(folder)]],
];

describe.each(PLACES)('queries of %s', (_, place) => {
  const ask = (command: string, ...args: string[]) => hosted(command, ...place(), ...args);

  test('values select events and exclude them', async () => {
    const { stdout } = await ask('events', '--error', 'ENOSPC', '--exclude-service', 'shop', '--output', 'ndjson');
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).transaction_id),
    ).toEqual(Array(10).fill('order-5'));
    const none = await ask('stats', '--exclude-type', 'sys_write', '--output', 'json');
    expect(JSON.parse(none.stdout).total.count).toBe(0);
    const wrong = await ask('events', '--operation', 'wrote');
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('"wrote" is not an operation')]);
  });

  test('the slowest transactions with an error', async () => {
    const { code, stdout } = await ask('transactions', '--sort', 'slowest', '--has-error', '--output', 'ndjson');
    const lines = stdout.trim().split('\n');
    expect([code, lines.length]).toEqual([0, 1]);
    expect(JSON.parse(lines[0]!)).toMatchObject({ transaction_id: 'order-5', event_count: 10, error_count: 10 });
  });

  test('transactions of whose id a part is known', async () => {
    const listIds = async (part: string) => {
      const { code, stdout } = await ask('transactions', '--search', part, '--output', 'ndjson');
      const ids = stdout.split('\n').flatMap((line) => (line ? [JSON.parse(line).transaction_id] : []));
      return [code, ids];
    };
    expect(await listIds('ER-3')).toEqual([0, ['order-3']]);
    expect(await listIds('order_%')).toEqual([0, []]);
    const empty = await ask('transactions', '--search', '');
    expect([empty.code, empty.stderr]).toEqual([1, expect.stringContaining('q: must not be empty')]);
  });

  test('transactions as a table', async () => {
    const { stdout } = await ask('transactions', '--limit', '2', '--output', 'table');
    const [heading, ...lines] = stdout.trim().split('\n');
    expect(heading).toMatch(/^BEGAN +DURATION +EVENTS +ERRORS +WRITTEN BACK +TRANSACTION +SERVICES +ID USED AGAIN\?$/);
    expect(lines.map((line) => /order-\d/.exec(line)![0])).toEqual(['order-5', 'order-4']);
    for (const line of lines) expect(line).toMatch(/10 bursts of calls, up to (5\.99|6\.00) s apart$/);
  });

  test('transactions as CSV', async () => {
    const { stdout } = await ask('transactions', '--limit', '1', '--sort', 'slowest', '--output', 'csv');
    const [firstNs, endNs] = [rows[5]!.at, rows[59]!.at + rows[59]!.duration!];
    const [, eventId] = /,10,10,([\w-]+),/.exec(stdout)!;
    expect(stdout).toBe(
      'transaction_id,trace_id,first_timestamp_ns,first_timestamp,last_end_ns,last_end,duration_ns,written_back_count,' +
        'written_back_bytes,written_back_last_end_ns,written_back_last_end,event_count,error_count,slowest_event_id,' +
        'burst_count,bursts_apart_ns,services,nodes,pinned\r\n' +
        `order-5,,${firstNs},${formatTime(firstNs)},${endNs},${formatTime(endNs)},${endNs - firstNs},0,0,,,10,10,${eventId},` +
        `10,${6n * SECOND - 6_000_000n},"[""db""]","[""test-node""]",false\r\n`,
    );
  });

  test('the slowest events', async () => {
    const { code, stdout } = await ask('events', '--sort', 'slowest', '--limit', '3');
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect([code, events.map(({ duration_ns }) => duration_ns)]).toEqual([0, [6_000_000, 6_000_000, 6_000_000]]);
    const wrong = await ask('events', '--sort', 'slowest', '--order', 'desc');
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      'error: --sort slowest has an order of its own\nSee kreplay events --help\n',
    ]);
  });

  test('where the time of a transaction went', async () => {
    const { code, stdout } = await hosted('show', 'order-5', '--limit', '2', '--output', 'text', ...place());
    expect(code).toBe(0);
    const [headline, counts, , title, heading, first, ...rest] = stdout.split('\n');
    expect(headline).toMatch(
      /^order-5 of db: 10 bursts of calls, up to 5\.99 s apart, .* 10 writes of node failed with ENOSPC\.$/,
    );
    expect(counts).toBe('10 writes and syncs, 0 requests to the disk, none missing.');
    expect([title, heading]).toEqual([
      'The slowest calls:',
      expect.stringMatching(/^ +BEGAN {2}DURATION {2}SHARE {2}PROGRAM {2}BYTES {2}CALL$/),
    ]);
    expect(first).toMatch(/^ +\+0ns +6\.000ms +0% +\S+ +- +write \S+ ENOSPC$/);
    expect(rest.join('\n')).toMatch(/^ *60\.000ms +0% +10 +0 +0 +0ns +10 +\S+$/m);
    expect(stdout).toMatch(
      /\nIts id may have been used 10 times; these explain one of them:\n( {2}--from .*\n){5} {2}and 5 more\n$/,
    );
    const json = JSON.parse((await kreplay('show', 'order-5', ...place())).stdout);
    expect(json).toMatchObject({ sentence: headline, calls: { count: 10 }, failures: [{ count: 10 }] });
    const [, from, to] = /--from (\d+) --to (\d+)/.exec(stdout)!;
    const one = await hosted('show', 'order-5', '--from', from!, '--to', to!, '--output', 'text', ...place());
    expect(one.stdout).toMatch(/^order-5 of db: 6\.00 of 6\.00 ms in one write by node\./);
    expect(one.stdout).toMatch(/^ +\+0ns +6\.000ms +100% /m);
    expect(await hosted('show', 'none', ...place())).toMatchObject({ code: 1, stdout: '' });
  });

  test('services', async () => {
    expect(await ask('services')).toMatchObject({ code: 0, stdout: 'db\nshop\n' });
    expect(JSON.parse((await ask('services', '--output', 'json')).stdout)).toEqual({ services: ['db', 'shop'] });
  });

  test('sums by service', async () => {
    const { code, stdout } = await ask('stats', '--group-by', 'service', '--output', 'csv');
    const [heading, ...lines] = stdout.trim().split('\r\n');
    expect([code, heading]).toEqual([
      0,
      'bucket_start_ns,service,count,error_count,bytes,sum_ns,p50_ns,p90_ns,p99_ns,max_ns',
    ]);
    expect(lines.map((line) => line.split(',').slice(1, 5).join())).toEqual(['db,30,10,1280', 'shop,30,0,1920']);
  });

  test('sums by time, with bars', async () => {
    const { stdout } = await ask('stats', '--bucket', '30s', '--transaction', 'order-1', '--output', 'table');
    const [heading, ...lines] = stdout.trim().split('\n');
    expect(heading).toMatch(/^FROM +EVENTS +ERRORS +BYTES +SUM +P50 +P99 +MAX$/);
    expect(lines.map((line) => line.split(/ {2,}/).slice(1, 3))).toEqual([
      ['5', '█'],
      ['5', '█'],
    ]);
  });
});

describe('a table of transactions whose ids were', () => {
  const told = (whose: string) =>
    `kreplay: whether ${whose} used again is not known: kreplay show TRANSACTION looks at one\n`;
  const AGAIN = [0, 60_000];
  const WITH_PAUSES = [0, 500, 1000, 1500];

  test.each([
    ['used again, or not looked at', 12, AGAIN, told('2 of these ids were')],
    ['used once, or not looked at', 11, WITH_PAUSES, told('1 of these ids was')],
    ['used again, and all looked at', 10, AGAIN, ''],
  ])('%s', async (_, count, startsMs, line) => {
    const rowsOf = (transaction: string) =>
      startsMs.map((ms): Row => ({ at: START + BigInt(ms) * 1_000_000n, duration: 400_000_000n, transaction }));
    const rows = Array.from({ length: count }, (_, i) => rowsOf(`order-${i}`)).flat();
    const place = ['--recording', recordingPath(recorded(rows))];
    const { code, stdout, stderr } = await hosted('transactions', ...place, '--output', 'table');
    expect([code, stderr]).toEqual([0, line]);
    const [heading, ...lines] = stdout.trim().split('\n');
    const isAgain = startsMs === AGAIN;
    expect(heading!.includes('ID USED AGAIN?')).toBe(isAgain);
    expect(lines.filter((one) => one.endsWith('2 bursts of calls, 59.6 s apart'))).toHaveLength(isAgain ? 10 : 0);
    expect(lines.filter((one) => one.endsWith('not known'))).toHaveLength(isAgain ? count - 10 : 0);
    const others = await hosted('transactions', ...place, '--output', 'ndjson');
    expect([others.stderr, others.stdout.split('"burst_count":null').length - 1]).toEqual(['', count - 10]);
  });
});

test('a missing file is reported as one line with exit code 1', async () => {
  const { code, stderr } = await hosted('transactions', '--recording', '/nowhere.kreplay');
  expect([code, stderr.trim().split('\n').length]).toEqual([1, 1]);
  expect(stderr).toContain('/nowhere.kreplay');
});

test('a daemon and a file cannot both be given', async () => {
  const { code, stderr } = await hosted('stats', '--recording', 'a', '--url', 'http://127.0.0.1:1');
  expect([code, stderr.includes('cannot be used with')]).toEqual([2, true]);
});

test('new events are followed, and Ctrl-C is not a failure', async () => {
  const live = newFolder();
  const writer = newWriter(live);
  const daemon = await serve(live);
  const tail = start('tail', '--url', daemon.url, '--from', `${START}`, '--service', 'shop', '--output', 'ndjson');
  appendRows(writer, [{ at: START + 1n }, { at: START + 2n, service: 'db' }, { at: START + 3n }]);
  daemon.setNow(START + SECOND);
  await tail.printed(/\n.*\n/);
  appendRows(writer, [{ at: START + SECOND, result: -28n }]);
  daemon.setNow(START + 2n * SECOND);
  const lines = (await tail.printed(/(\n.*){3}/)).trim().split('\n');
  expect(lines.map((line) => JSON.parse(line).error)).toEqual([null, null, 'ENOSPC']);
  tail.child.kill('SIGINT');
  expect((await tail.ended).code).toBe(0);
  await daemon.close();
  writer.close();
});

test('a followed table has one heading, and the end of the daemon is reported', async () => {
  const live = newFolder();
  const writer = newWriter(live);
  const daemon = await serve(live);
  const tail = start('tail', '--url', daemon.url, '--from', `${START}`, '--output', 'table');
  appendRows(writer, [{ at: START + 1n }]);
  daemon.setNow(START + SECOND);
  await tail.printed(/(\n.*){2}/);
  appendRows(writer, [{ at: START + SECOND }]);
  daemon.setNow(START + 2n * SECOND);
  await tail.printed(/(\n.*){3}/);
  await daemon.close();
  const { code, stdout, stderr } = await tail.ended;
  expect([code, stdout.match(/TRANSACTION/g)]).toEqual([1, ['TRANSACTION']]);
  expect(stderr).toMatch(/^kreplay: the daemon.+\n$/);
  writer.close();
});

describe('write-back', () => {
  const row = { at: START, transaction: 'order-1' };
  const back = { at: START + SECOND, type: 'block_io' as const, source: 'none' as const };
  const origins = [{ transaction: 'order-1', bytes: 4096n }];

  test('is in the table, and in its own columns in CSV', async () => {
    const place = ['--recording', recordingPath(recorded([row, { ...back, origins }]))];
    const table = await hosted('transactions', ...place, '--output', 'table');
    expect(table.stdout).toMatch(/ 4096 bytes, until 1\.000s later {2}order-1 /);
    const csv = await hosted('transactions', ...place, '--output', 'csv');
    expect(csv.stdout).toContain(`,1000,1,4096,${START + SECOND + 1000n},${formatTime(START + SECOND + 1000n)},2,`);
  });
});
