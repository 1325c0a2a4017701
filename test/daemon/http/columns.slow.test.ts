/** Tests the columnar answer against NDJSON of the same query, with a decoder that shares no code with the daemon. */
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { encodeColumnLines } from '../../../daemon/store/blocks/column_lines.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { ScanRequest } from '../../../daemon/store/store.ts';
import { times } from '../../repeats.ts';
import { columnAnswer, plainEvent } from '../column_answer.ts';
import { exampleRecording } from '../example_recording.ts';
import { later } from '../later.ts';
import { newFolder, type Row, recorded, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve, served } from '../served.ts';

const TYPE = 'application/vnd.kreplay.columns';
const columns = { headers: { accept: TYPE } };

/** The last line of a columnar answer, as a page of the same query has it. */
async function coverageOf(from: Served, query: string): Promise<string> {
  const { text } = await from.get(`/api/events?${query}`);
  return `{${text.slice(text.lastIndexOf('"coverage":'))}`;
}

async function compare(from: Served, query: string) {
  const { status, headers, text } = await from.get(`/api/events?${query}`, columns);
  expect([status, headers['content-type']]).toEqual([200, TYPE]);
  const answer = columnAnswer(text);
  expect(answer.events).toEqual((await from.lines(`/api/events?${query}`)).map(plainEvent));
  expect(answer.coverage).toBe(await coverageOf(from, query));
  for (const size of answer.sizes) expect([size > 0, size <= 4096]).toEqual([true, true]);
  return answer;
}

describe('the recording of the examples', () => {
  let app: Served;
  beforeAll(async () => {
    app = await serve(exampleRecording());
  });
  afterAll(() => app.close());

  test.each([
    ['', 7],
    ['failed=true', 1],
    ['event_type=block_io', 2],
    ['event_type=sys_sync,sys_write&min_duration_ms=0.05', 3],
    ['transaction_id=order-0', 1],
    ['service=db&limit=2', 2],
    ['from=2025-11-20T23:00:00Z&to=2025-11-21T00:30:00Z', 7],
    ['pid=1', 0],
  ])('has the events of %s', async (query, count) => {
    const { events, sizes } = await compare(app, query);
    expect(events).toHaveLength(count);
    expect(sizes).toHaveLength(count === 0 ? 0 : 1);
  });

  test('has its gap in the last line, and names that are listed once', async () => {
    const { coverage, listed } = await compare(app, '');
    expect(JSON.parse(coverage!).coverage).toMatchObject({ complete: false, lost: 12 });
    expect(listed).toEqual({ recordings: 1, threads: 3, whats: 4, owners: 4 });
  });

  test('starts at a cursor', async () => {
    const first = await app.get('/api/events?limit=4');
    const { events } = await compare(app, `limit=4&cursor=${first.json.next_cursor}`);
    expect(events).toHaveLength(3);
  });

  test.each([
    ['order=desc', 'order'],
    ['sort=slowest&limit=3', 'sort'],
    ['limit=0', 'limit'],
    ['nope=1', 'nope'],
  ])('%s is refused', async (query, parameter) => {
    const { status, json } = await app.get(`/api/events?${query}`, columns);
    expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', parameter]);
  });

  test('is chosen by Accept only, and HEAD reads no events', async () => {
    for (const accept of [`${TYPE}, application/json;q=0.5`, `text/html, ${TYPE};q=0.1`])
      expect((await app.get('/api/events', { headers: { accept } })).headers['content-type']).toBe(TYPE);
    expect((await app.get('/api/events', { headers: { accept: `${TYPE};q=0` } })).status).toBe(406);
    const head = await app.get('/api/events', { method: 'HEAD', ...columns });
    expect([head.status, head.headers['content-type'], head.headers.vary, head.text]).toEqual([
      200,
      TYPE,
      'Accept',
      '',
    ]);
  });
});

const HOSTILE = [
  ...['__proto__', 'constructor', '<script>alert(1)</script>', '\u202etxt.exe\u202c', 'a"b\\c\n\u0000', '\ud800half'],
  ...[Buffer.from([0x2f, 0xff, 0xfe]).toString('utf8'), '\ufeffmark', '\u{1f600}', ' ', '0', 'null'],
];
const name = fc.constantFrom(...HOSTILE, 'shop', 'db');
const large = fc.constantFrom(0n, 1n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n);
const result = fc.oneof(large, fc.constantFrom(-28n, -512n, -9999n, 1n - 2n ** 53n, -(2n ** 53n), -(2n ** 63n)));
const owner = fc.record({ service: name, transaction: name }, { requiredKeys: [] });

const common = {
  // Few times, so that many are equal.
  at: fc.oneof({ weight: 9, arbitrary: fc.bigInt(0n, 20n) }, large).map((at) => (at < 100n ? START + at : at)),
  duration: fc.oneof(fc.bigInt(0n, 2_000_000n), large),
  ...{ service: name, transaction: name, comm: name, result },
  source: fc.constantFrom('marker', 'origin', 'none'),
  quality: fc.constantFrom('exact', 'ambiguous'),
  pid: fc.constantFrom(1, 7, 2 ** 32 - 1),
  tid: fc.nat(9),
};
const row = fc.oneof(
  fc.record(
    { ...common, file: name, fileKind: fc.constantFrom('regular', 'pipe'), requested: large },
    { requiredKeys: ['at'] },
  ),
  fc.record({ ...common, type: fc.constant('sys_sync'), file: name }, { requiredKeys: ['at', 'type'] }),
  fc.record(
    {
      ...{ ...common, type: fc.constant('block_io'), bytes: large, queue: large },
      device: fc.oneof(name, fc.constant('')),
      origins: fc.array(
        fc.tuple(owner, large).map(([of, bytes]) => ({ ...of, bytes })),
        { maxLength: 4 },
      ),
    },
    { requiredKeys: ['at', 'type'] },
  ),
) as fc.Arbitrary<Row>;

const files = fc.array(
  fc.record({ node: fc.constantFrom('a', 'b', '__proto__'), rows: fc.array(row, { maxLength: 40 }) }),
  {
    ...{ minLength: 1, maxLength: 3 },
  },
);
const query = fc.constantFrom('', 'failed=true', 'event_type=block_io', 'limit=7', 'service=shop', 'node=a', 'pid=7');

test('random recordings of several nodes, with a copy of one of them', async () => {
  await fc.assert(
    fc.asyncProperty(files, query, fc.boolean(), async (made, asked, hasCopy) => {
      const paths = made.map(({ node, rows }) => recordingPath(recordedOn(node, rows)));
      const copy = join(newFolder(), 'copy.kreplay');
      copyFileSync(paths[0]!, copy);
      const app = await serve(openRecordingStore(undefined, hasCopy ? [...paths, copy] : paths));
      // No event lies in the future.
      app.setNow(2n ** 63n - 1n);
      await compare(app, asked).finally(() => app.close());
    }),
    { numRuns: times(15) },
  );
}, 120_000);

const many = (count: number, more: (i: number) => Partial<Row> = () => ({})) =>
  Array.from({ length: count }, (_, i) => ({ at: START + BigInt(i), ...more(i) }) as Row);

test('names that many events share are listed once', async () => {
  const app = await served(recorded(many(10_000, (i) => ({ transaction: `tx-${i % 7}`, file: `/${i % 5}` }))));
  const { listed, sizes } = await compare(app, '');
  expect(listed).toEqual({ recordings: 1, threads: 1, whats: 5, owners: 7 });
  expect(Math.max(...sizes)).toBe(4096);
});

test('recordings that alternate fill the lines, and list their names once', async () => {
  const rows = (offset: number) => many(5000, (i) => ({ at: START + BigInt(2 * i + offset), tid: 1 + (i % 3) }));
  const paths = [recordedOn('a', rows(0)), recordedOn('b', rows(1))].map(recordingPath);
  const app = await served(openRecordingStore(undefined, paths));
  const { events, listed, sizes } = await compare(app, '');
  expect(events.map(({ node }) => node)).toEqual(Array.from({ length: 10_000 }, (_, i) => 'ab'[i % 2]));
  expect(listed).toEqual({ recordings: 2, threads: 6, whats: 1, owners: 1 });
  expect(sizes.length).toBeLessThan(8);
});

test('more threads than are remembered', async () => {
  const app = await served(recorded(many(67_000, (i) => ({ tid: i % 66_000 }))));
  const { events, listed } = columnAnswer((await app.get('/api/events', columns)).text);
  const wrong = events.filter(({ thread }, i) => thread[1] !== BigInt(i % 66_000));
  expect([events.length, wrong]).toEqual([67_000, []]);
  // A thread that comes again after all were forgotten has a second index.
  expect(listed.threads).toBeGreaterThan(66_000);
}, 60_000);

test('long names end a line early', async () => {
  const app = await served(recorded(many(4000, (i) => ({ file: `/${'long/'.repeat(700)}${i}` }))));
  const { text } = await app.get('/api/events', columns);
  for (const line of text.split('\n')) expect(line.length).toBeLessThan(4 * 1024 * 1024);
  expect((await compare(app, '')).sizes.length).toBeGreaterThan(3);
});

describe('a line', () => {
  const blocksOf = (rows: readonly Row[]) => {
    const store = openRecordingStore(recorded(rows));
    const blocks = [...store.scan({ filter: {}, order: 'asc' })];
    return { store, block: blocks[0]! };
  };

  test('is not held back while the next block is read', async () => {
    const { store, block } = blocksOf(many(3));
    let asked = 0;
    async function* slow() {
      for (; asked < 2; asked++) yield block;
    }
    const lines = encodeColumnLines(slow());
    expect(columnAnswer(String((await lines.next()).value)).events).toHaveLength(3);
    expect(asked).toBe(0);
    await lines.return();
    store.close();
  });

  test('has the rows of several blocks that are at hand, and an empty block is only a pause', async () => {
    const { store, block } = blocksOf(many(300));
    const empty = { ...block, block: { ...block.block, rowCount: 0, typeCounts: new Uint32Array(4) } };
    const blocks = [...Array.from({ length: 20 }, () => ({ ...block, nextAtHand: true })), block, empty];
    const chunks: Buffer[] = [];
    for await (const chunk of encodeColumnLines(later(blocks))) chunks.push(Buffer.from(chunk));
    const { sizes } = columnAnswer(chunks.join(''));
    expect([sizes, chunks.at(-1)!.length]).toEqual([[4096, 300 * 21 - 4096], 0]);
    store.close();
  });
});

describe('a client', () => {
  const EVENTS = 4096;
  const REPEATED = 200;

  /** An answer of the same block again and again: far more than a socket holds. */
  async function repeating() {
    const store = openRecordingStore(recorded(many(EVENTS, (i) => ({ transaction: `tx-${i % 7}` }))));
    const seen = { asked: 0, ended: false };
    const scan = function* (request: ScanRequest) {
      try {
        const [block] = [...store.scan({ ...request, reusesMemory: false })];
        for (; seen.asked < REPEATED; seen.asked++) yield block!;
      } finally {
        seen.ended = true;
      }
    };
    return { app: await served({ ...store, scan }), seen };
  }

  async function untilSteady(seen: { asked: number }): Promise<number> {
    for (let before = -1; before !== seen.asked; await wait(300)) before = seen.asked;
    return seen.asked;
  }

  test('that reads slowly pauses the scan, and gets the whole answer', async () => {
    const { app, seen } = await repeating();
    const res = await app.open('/api/events', columns);
    expect(await untilSteady(seen)).toBeLessThan(REPEATED);
    expect((await app.get('/healthz')).status).toBe(200);
    let [bytes, tail] = [0, ''];
    for await (const chunk of res) {
      bytes += chunk.length;
      tail = (tail + chunk).slice(-1000);
    }
    expect([seen.asked, seen.ended]).toEqual([REPEATED, true]);
    expect(bytes).toBeGreaterThan(REPEATED * EVENTS * 20);
    expect(tail).toMatch(/\}\n\{"coverage":\{.*\}\}\n$/);
  });

  test('that leaves ends the scan', async () => {
    const { app, seen } = await repeating();
    const res = await app.open('/api/events', columns);
    await once(res, 'data');
    res.destroy();
    await untilSteady(seen);
    expect([seen.asked < REPEATED, seen.ended]).toEqual([true, true]);
    expect((await app.get('/api/nodes')).status).toBe(200);
  });

  test('does not take an answer that fails midway for a complete one', async () => {
    const store = openRecordingStore(recorded(many(10)));
    const scan = function* (request: ScanRequest) {
      yield* store.scan(request);
      throw Object.assign(new Error('damaged'), { code: 'recording_corrupt' });
    };
    const app = await served({ ...store, scan });
    const res = await app.open('/api/events', columns);
    let text = '';
    const read = (async () => {
      for await (const chunk of res) text += chunk;
    })();
    await expect(read).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect([columnAnswer(text).events.length, columnAnswer(text).coverage]).toEqual([10, undefined]);
  });
});
