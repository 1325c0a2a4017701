/** Tests what lists and answers say of transactions whose id was used again, against what their explanation says. */
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { openWriter } from '../../../agent/recording/write/writer.ts';
import { createScanGate, QUERY_TIMEOUT_MS_DEFAULT } from '../../../daemon/http/access/scan_gate.ts';
import { createEmbeddedStore } from '../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { countBursts, LISTED_BURSTS } from '../../../daemon/store/transaction_bursts.ts';
import { times } from '../../repeats.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, recordedOn, recordingPath, START } from '../recorded.ts';
import { serve, served } from '../served.ts';

const ms = (value: number) => BigInt(Math.round(value * 1_000_000));
const SECOND = 1_000_000_000n;
const BEGAN = START - 3600n * SECOND;
const call = (transaction: string, fromMs: number, lastsMs: number, more: Partial<Row> = {}): Row =>
  ({ transaction, at: BEGAN + ms(fromMs), duration: ms(lastsMs), service: 'shop', ...more }) as Row;

/** The data of the transaction, written back by the kernel long after. */
const writeBack = (transaction: string, fromMs: number): Row => ({
  ...{ type: 'block_io', at: BEGAN + ms(fromMs), duration: ms(5), source: 'origin', transaction, bytes: 4096n },
  origins: [{ service: 'shop', transaction, bytes: 4096n }],
});

/** The two ends of a transaction of a minute, with what a test puts between them. */
const minute = (transaction: string, ...between: readonly Row[]): Row[] => [
  call(transaction, 0, 20),
  ...between,
  call(transaction, 60_000, 300),
];

interface Listed {
  transaction_id: string;
  burst_count: number | null;
  bursts_apart_ns: number | null;
}

const burstsOf = ({ burst_count, bursts_apart_ns }: Listed) => [burst_count, bursts_apart_ns];

test('an id that was used again is seen in the list, and in each answer about it', async () => {
  const { get } = await served(recorded([...minute('again'), call('once', 0, 900)]));
  const expected = [2, 59_980_000_000];
  const { transactions } = (await get('/api/transactions?sort=slowest')).json;
  expect(transactions.map((one: Listed) => [one.transaction_id, ...burstsOf(one)])).toEqual([
    ['again', ...expected],
    ['once', 1, 0],
  ]);
  expect(burstsOf((await get('/api/transactions/again')).json)).toEqual(expected);
  expect(burstsOf((await get('/api/transactions/again/summary')).json.transaction)).toEqual(expected);
  const explained = (await get('/api/transactions/again/explain')).json;
  expect(burstsOf(explained.transaction)).toEqual(expected);
  expect(explained.bursts).toHaveLength(2);
  const [first, second] = explained.bursts;
  expect(Date.parse(second.from_time) - Date.parse(first.to_time)).toBe(59_980);
});

test.each([
  ['a slow call fills the time between', minute('one', call('one', 100, 59_800))],
  [
    'calls of two threads fill it together',
    minute('one', call('one', 20, 31_000), call('one', 30_000, 30_000, { tid: 7 })),
  ],
  [
    'it waits for 28 of 60 s, and works for longer',
    minute('one', call('one', 30, 15_000), call('one', 43_000, 17_000)),
  ],
  ['its own requests fill it', minute('one', call('one', 30, 59_900, { type: 'block_io', bytes: 4096n }))],
  [
    'no pause is as long as a second',
    minute('one', ...Array.from({ length: 99 }, (_, i) => call('one', i * 600 + 600, 5))),
  ],
  ['its data is written back a minute later', [call('one', 0, 20), writeBack('one', 60_000)]],
  ['all that is recorded of it is write-back, twice', [writeBack('one', 0), writeBack('one', 60_000)]],
])('an id that was used once is one burst at most: %s', async (_, rows) => {
  const { get } = await served(recorded(rows));
  const explained = (await get('/api/transactions/one/explain')).json;
  const count = explained.bursts.length;
  expect(count).toBeLessThanOrEqual(1);
  const [listed] = (await get('/api/transactions')).json.transactions;
  expect(burstsOf(listed)).toEqual([count, 0]);
  expect(burstsOf((await get('/api/transactions/one')).json)).toEqual([count, 0]);
});

const drawnCall = fc.record({
  fromMs: fc.integer({ min: 0, max: 20_000 }),
  lastsMs: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 6000 })),
  kind: fc.constantFrom('call', 'request', 'write_back'),
  node: fc.constantFrom(0, 1),
  transaction: fc.constantFrom('a', 'b', 'c'),
});

test('the list says of each transaction what its explanation says, whatever it did', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(drawnCall, { minLength: 1, maxLength: 12 }), async (drawn) => {
      const rowOf = ({ transaction, fromMs, lastsMs, kind }: (typeof drawn)[number]): Row => {
        if (kind === 'write_back') return writeBack(transaction, fromMs);
        return call(transaction, fromMs, lastsMs, kind === 'request' ? { type: 'block_io', bytes: 512n } : {});
      };
      const folders = [0, 1].flatMap((node) => {
        const own = drawn.filter((one) => one.node === node);
        return own.length === 0 ? [] : [recordedOn(`node-${node}`, own.map(rowOf))];
      });
      const { get, close } = await serve(openRecordingStore(undefined, folders.map(recordingPath)));
      for (const listed of (await get('/api/transactions')).json.transactions as Listed[]) {
        const { bursts } = (await get(`/api/transactions/${listed.transaction_id}/explain`)).json;
        const pauses = bursts
          .slice(1)
          .map(({ from }: { from: number }, i: number) => BigInt(from) - BigInt(bursts[i].to));
        const longest = pauses.reduce((most: bigint, ns: bigint) => (ns > most ? ns : most), 0n);
        // Doubles do not hold these times exactly.
        expect(listed.burst_count).toBe(bursts.length);
        expect(Math.abs(listed.bursts_apart_ns! - Number(longest))).toBeLessThan(1000);
      }
      await close();
    }),
    { numRuns: times(10) },
  );
});

test('a list reads the events of a few transactions; of others it says that it does not know', async () => {
  const names = Array.from({ length: LISTED_BURSTS.transactionsMax + 2 }, (_, i) => `again-${i}`);
  const { get } = await served(recorded(names.flatMap((name) => [...minute(name), call(`short-${name}`, 0, 5)])));
  const { transactions } = (await get('/api/transactions?sort=slowest')).json as { transactions: Listed[] };
  const counts = transactions.map(({ burst_count }) => burst_count);
  const known = names.map((_, i) => (i < LISTED_BURSTS.transactionsMax ? 2 : null));
  expect(counts).toEqual([...known, ...names.map(() => 1)]);
  const left = transactions[LISTED_BURSTS.transactionsMax]!;
  expect(burstsOf(left)).toEqual([null, null]);
  expect((await get(`/api/transactions/${left.transaction_id}`)).json.burst_count).toBe(2);
});

test('a transaction with too many events is left out, and those after it are not', async () => {
  const many = minute('many', ...Array.from({ length: 10 }, (_, i) => call('many', i * 10, 1)));
  const store = createEmbeddedStore(openRecordingStore(recorded([...many, ...minute('few')])));
  const found = await store.findTransactionsById(['many', 'few']);
  const count = async (eventsMax: number) => {
    const steps = countBursts(store, [...found.values()], { transactionsMax: 2, eventsMax });
    for (;;) {
      const { done, value } = await steps.next();
      if (done) return value;
    }
  };
  expect((await count(14)).map((one) => one?.count)).toEqual([2, 2]);
  expect((await count(13)).map((one) => one?.count)).toEqual([2, undefined]);
  expect((await count(11)).map((one) => one?.count)).toEqual([undefined, 2]);
  await store.close();
});

test('a transaction that goes on is looked at again', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(writer, minute('one').slice(0, 1));
  const { get } = await served(folder);
  const ask = async () => burstsOf((await get('/api/transactions')).json.transactions[0]);
  expect(await ask()).toEqual([1, 0]);
  appendRows(writer, minute('one').slice(1));
  expect([await ask(), await ask()]).toEqual(Array(2).fill([2, 59_980_000_000]));
  appendRows(writer, [call('one', 600_000, 10)]);
  expect(await ask()).toEqual([3, 539_700_000_000]);
  writer.close();
});

test('an id of which not all events are there any more: how often it was used is not known, unless it was known before', async () => {
  const folder = newFolder();
  const clock = { nowNs: BEGAN };
  const origin = { node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs };
  const writer = openWriter({ path: recordingPath(folder), ...origin, retention: { ageNs: 4000n * SECOND } });
  const filling = (fromMs: number) => Array.from({ length: 4096 }, (_, i) => call('filling', fromMs + i / 1000, 0));
  const use = (fromMs: number) => appendRows(writer, [call('again', fromMs, 20), ...filling(fromMs)]);
  use(0);
  clock.nowNs += 3600n * SECOND;
  use(3_600_000);
  const asked = await served(folder);
  const ask = async ({ get }: typeof asked) => burstsOf((await get('/api/transactions/again')).json);
  expect(await ask(asked)).toEqual([2, 3_599_980_000_000]);
  for (let i = 0; i < 10; i++) {
    clock.nowNs += 60n * SECOND;
    appendRows(writer, filling(3_600_000 + (i + 1) * 60_000));
    writer.flush();
  }
  writer.close();
  const { json } = await asked.get('/api/events?transaction_id=again');
  expect(json.events).toHaveLength(1);
  const later = await served(folder);
  expect((await later.get('/api/transactions/again')).json.event_count).toBe(2);
  expect(await ask(later)).toEqual([null, null]);
  const { transactions } = (await later.get('/api/transactions?q=again')).json;
  expect(transactions.map(burstsOf)).toEqual([[null, null]]);
  expect(await ask(asked)).toEqual([2, 3_599_980_000_000]);
});

test('an id of which some events are damaged: how often it was used is not known', async () => {
  const path = recordingPath(recorded(minute('again')));
  const database = new Database(path);
  database.exec("UPDATE segment SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE data <> ''");
  database.exec("UPDATE segment_piece SET data = CAST('x' || substr(data, 2) AS BLOB)");
  database.close();
  const { get } = await served(path);
  expect(burstsOf((await get('/api/transactions/again')).json)).toEqual([null, null]);
  expect((await get('/api/transactions')).json.transactions.map(burstsOf)).toEqual([[null, null]]);
});

describe('an answer has the rest when the events cannot be read:', () => {
  const TWICE = 59_980_000_000;
  const rows = [...minute('again'), ...minute('other').map((row) => ({ ...row, at: row.at + SECOND }))];

  async function askAll({ get }: Awaited<ReturnType<typeof served>>) {
    const paths = ['/api/transactions/again', '/api/transactions/again/summary', '/api/transactions/again/explain'];
    const [list, ...answers] = await Promise.all(['/api/transactions', ...paths].map((path) => get(path)));
    expect([list!, ...answers].map(({ status, headers }) => [status, headers['retry-after']])).toEqual(
      Array(4).fill([200, undefined]),
    );
    const listed = list!.json.transactions.map((one: Listed) => [one.transaction_id, ...burstsOf(one)]);
    return [listed, ...answers.map(({ json }) => burstsOf(json.transaction ?? json))];
  }

  /** Reads of the columns that only the counting needs begin with `before`. */
  function openBefore(before: (request: { columns?: readonly string[] }) => void) {
    const store = openRecordingStore(recorded(rows));
    const scan: typeof store.scan = function* (request) {
      if (request.columns?.length === 4) before(request);
      yield* store.scan(request);
    };
    return { ...store, scan };
  }

  const unknown = [
    ['other', null, null],
    ['again', null, null],
  ];

  test('the recording fails', async () => {
    const failing = openBefore(() => {
      throw Object.assign(new Error('cut'), { code: 'recording_unavailable' });
    });
    expect(await askAll(await served(failing))).toEqual([unknown, ...Array(3).fill([null, null])]);
  });

  test('reading takes too long', async () => {
    const clock = { ms: 0 };
    const slow = openBefore(() => {
      clock.ms += 2 * QUERY_TIMEOUT_MS_DEFAULT;
    });
    const scanGate = createScanGate({ nowMs: () => clock.ms });
    const daemon = await served(slow, { scanGate });
    const { status, json } = await daemon.get('/api/transactions');
    expect([status, json.transactions.map(burstsOf)]).toEqual([200, Array(2).fill([null, null])]);
    for (const path of ['', '/summary', '/explain']) {
      const answer = await daemon.get(`/api/transactions/again${path}`);
      expect([path, answer.status, answer.headers['retry-after']]).toEqual([path, 200, undefined]);
      expect(burstsOf(answer.json.transaction ?? answer.json)).toEqual([null, null]);
    }
  });

  test('too many queries run', async () => {
    const daemon = await served(recorded(rows), { scanGate: createScanGate({ scansMax: 0, nowMs: () => 0 }) });
    const { status, headers, json } = await daemon.get('/api/transactions/again');
    expect([status, headers['retry-after'], ...burstsOf(json)]).toEqual([200, undefined, null, null]);
    expect((await daemon.get('/api/transactions')).json.code).toBe('busy');
  });

  test('and is not remembered', async () => {
    let isFailing = true;
    const store = openBefore(() => {
      if (isFailing) throw Object.assign(new Error('cut'), { code: 'recording_corrupt' });
    });
    const daemon = await served(store);
    await askAll(daemon);
    isFailing = false;
    const [[other]] = (await askAll(daemon)) as [[unknown[]]];
    expect(other).toEqual(['other', 2, TWICE]);
  });
});
