/** Tests maps against plain counts over the events as NDJSON: any filter, any columns, several nodes, write-back. */
import fc from 'fast-check';
import { parseJson } from '../../../daemon/base/exact_json.ts';
import { findDurationRow, findSmallDurationRow, ROW_EDGES } from '../../../daemon/model/duration_rows.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../repeats.ts';
import { type Row, recorded, recordedOn, recordingPath, START, WHOLE } from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';

const MS = 1_000_000n;
const NODES = ['node-0', 'node-1'];

/** Transactions with parts on both nodes, some of them with write-back later, and events without one. */
const rows: { node: string; row: Row }[] = Array.from({ length: 600 }, (_, i) => {
  const transaction = i % 5 === 0 ? undefined : `tx-${(i * 31) % 97}`;
  const isBack = i % 11 === 0 && transaction !== undefined;
  const row: Row = {
    at: START + BigInt((i * 7919) % 1000) * MS + (isBack ? 5000n * MS : 0n),
    duration: BigInt(10 ** ((i * 13) % 9)) + BigInt(i % 7),
    service: i % 3 === 0 ? 'shop' : 'cart',
    result: i % 17 === 0 ? -28n : 5n,
    ...(transaction !== undefined && { transaction }),
    ...(isBack && { type: 'block_io', source: 'origin' }),
  };
  return { node: NODES[i % 2]!, row };
});

interface Event {
  node: string;
  service_name: string;
  timestamp_ns: number | bigint;
  duration_ns: number | bigint;
  result: number | bigint;
  transaction_id: string | null;
  attribution: { source: string };
}

interface Timed {
  start: bigint;
  duration: bigint;
  failed: boolean;
  services: string[];
  nodes: string[];
}

let served: Served;
let events: Timed[];
let transactions: Timed[];
beforeAll(async () => {
  const folders = NODES.map((node) =>
    recordedOn(
      node,
      rows.filter((one) => one.node === node).map(({ row }) => row),
    ),
  );
  served = await serve(openRecordingStore(undefined, folders.map(recordingPath)));
  const all = (await served.lines('/api/events')).map((line) => parseJson(line) as Event);
  events = all.map((event) => timedOf([event], [event]));
  const named = all.filter(({ transaction_id }) => transaction_id !== null);
  transactions = [...Map.groupBy(named, ({ transaction_id }) => transaction_id).values()].map((some) =>
    timedOf(
      some,
      some.filter(({ attribution }) => attribution.source !== 'origin'),
    ),
  );
});
afterAll(() => served.close());

/** `own` are those that a caller waited for. */
function timedOf(some: readonly Event[], own: readonly Event[]): Timed {
  const starts = some.map(({ timestamp_ns }) => BigInt(timestamp_ns));
  const start = starts.reduce((a, b) => (a < b ? a : b));
  const ends = own.map(({ timestamp_ns, duration_ns }) => BigInt(timestamp_ns) + BigInt(duration_ns));
  return {
    start,
    duration: ends.reduce((a, b) => (a > b ? a : b), start) - start,
    failed: some.some(({ result }) => result < 0),
    services: some.map(({ service_name }) => service_name),
    nodes: some.map(({ node }) => node),
  };
}

const within = fc.integer({ min: -10, max: 6100 });
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const query = fc
  .record({
    of: fc.constantFrom('events', 'transactions'),
    columns: fc.integer({ min: 1, max: 500 }),
    window: optional(fc.tuple(within, within).filter(([a, b]) => a < b)),
    service: optional(fc.constantFrom('shop', 'cart', 'none')),
    node: optional(fc.constantFrom(...NODES)),
    failed: optional(fc.boolean()),
    min_duration_ms: optional(fc.constantFrom('0.001', '0.5', '20')),
    max_duration_ms: optional(fc.constantFrom('20', '1.000006', '100')),
  })
  .filter(({ min_duration_ms: min = 0, max_duration_ms: max = 100 }) => Number(min) <= Number(max));
type Asked = typeof query extends fc.Arbitrary<infer T> ? T : never;

interface Answer {
  from: bigint;
  to: bigint;
  column_ns: number;
  column_count: number;
  first_row: number;
  row_edges: number[];
  cells: [column: number, row: number, count: number, failed: number][];
  total: { count: number; failed: number; duration_ns: { sum: number | bigint; max: number | null } };
}

function pathOf({ window, failed, of, ...plain }: Asked): string {
  const parameters = new URLSearchParams({ of });
  for (const [name, value] of Object.entries(plain)) if (value !== undefined) parameters.set(name, String(value));
  if (failed !== undefined) parameters.set(of === 'events' ? 'failed' : 'has_error', String(failed));
  if (window) parameters.set('from', String(START + BigInt(window[0]) * MS));
  if (window) parameters.set('to', String(START + BigInt(window[1]) * MS));
  return `/api/heatmap?${parameters}`;
}

const nsOf = (ms: string | undefined) => (ms === undefined ? undefined : BigInt(Math.round(Number(ms) * 1e6)));

function isAsked(one: Timed, asked: Asked): boolean {
  const [min = 0n, max = 2n ** 64n] = [nsOf(asked.min_duration_ms), nsOf(asked.max_duration_ms)];
  return (
    (asked.service === undefined || one.services.includes(asked.service)) &&
    (asked.node === undefined || one.nodes.includes(asked.node)) &&
    (asked.failed === undefined || one.failed === asked.failed) &&
    one.duration >= min &&
    one.duration <= max
  );
}

/** Counts by the edges of the answer's rows. */
function expectedCells(some: readonly Timed[], { from, column_ns, first_row, row_edges }: Answer): number[][] {
  const cells = new Map<string, number[]>();
  for (const { start, duration, failed } of some) {
    const column = Number((start - BigInt(from)) / BigInt(column_ns));
    const row = first_row + row_edges.findLastIndex((edge) => BigInt(edge) <= duration);
    const cell = cells.get(`${column} ${row}`) ?? [column, row, 0, 0];
    cells.set(`${column} ${row}`, [column, row, cell[2]! + 1, cell[3]! + (failed ? 1 : 0)]);
  }
  return [...cells.values()].sort(([a, b], [c, d]) => a! - c! || b! - d!);
}

const sumOf = (durations: readonly bigint[]) => durations.reduce((sum, duration) => sum + duration, 0n);

test('a map counts exactly what a query selects', async () => {
  await fc.assert(
    fc.asyncProperty(query, async (asked) => {
      const { status, text } = await served.get(pathOf(asked));
      expect([status, status === 200 ? '' : text]).toEqual([200, '']);
      const answer = parseJson(text) as Answer;
      const [from, to] = [BigInt(answer.from), BigInt(answer.to)];
      if (asked.window) expect([from, to]).toEqual(asked.window.map((ms) => START + BigInt(ms) * MS));
      const chosen = (asked.of === 'events' ? events : transactions)
        .filter((one) => isAsked(one, asked))
        .filter(({ start }) => start >= from && start < to);
      expect(answer.cells).toEqual(expectedCells(chosen, answer));
      const { count, failed, duration_ns } = answer.total;
      expect([count, failed]).toEqual([chosen.length, chosen.filter((one) => one.failed).length]);
      const durations = chosen.map(({ duration }) => duration);
      const max = durations.reduce<bigint | null>((a, b) => (a === null || b > a ? b : a), null);
      expect([BigInt(duration_ns.sum), duration_ns.max === null ? null : BigInt(duration_ns.max)]).toEqual([
        sumOf(durations),
        max,
      ]);
      expect(answer.column_count).toBeLessThanOrEqual(asked.columns);
      expect(BigInt(answer.column_count) * BigInt(answer.column_ns)).toBeGreaterThanOrEqual(to - from);
    }),
    { numRuns: times(60) },
  );
}, 60_000);

test('without bounds the map covers everything that is recorded', async () => {
  for (const [kind, all] of [
    ['events', events],
    ['transactions', transactions],
  ] as const) {
    const { json } = await served.get(`/api/heatmap?of=${kind}`);
    expect(json.total.count).toBe(all.length);
    expect(json.column_count).toBeLessThanOrEqual(100);
  }
});

test('maps of parts add up to the map of the whole', async () => {
  const ask = async (of: string, from: number, columns: number) => {
    const range = `from=${START + BigInt(from) * MS}&to=${START + BigInt(from + columns * 10) * MS}`;
    return (await served.get(`/api/heatmap?of=${of}&${range}&columns=${columns}`)).json as Answer;
  };
  for (const kind of ['events', 'transactions']) {
    const [whole, first, second] = [await ask(kind, 0, 100), await ask(kind, 0, 30), await ask(kind, 300, 70)];
    const shifted = second.cells.map(([column, row, ...counts]) => [column + 30, row, ...counts]);
    expect([...first.cells, ...shifted]).toEqual(whole.cells);
    expect(whole.cells.length).toBeGreaterThan(50);
  }
});

test('edges are the smallest integers that are not below the powers, and any duration is between two of them', () => {
  for (const [row, edge] of ROW_EDGES.entries()) {
    if (row === 0) continue;
    expect(edge ** 16n >= 10n ** BigInt(row) && (edge - 1n) ** 16n < 10n ** BigInt(row)).toBe(true);
  }
  expect([16, 32, 160].map((row) => ROW_EDGES[row])).toEqual([10n, 100n, 10_000_000_000n]);
  const near = ROW_EDGES.flatMap((edge) => [edge - 1n, edge, edge + 1n]).filter((at) => at >= 0n && at < 2n ** 64n);
  for (const duration of [...near, 2n ** 53n - 1n, 2n ** 53n, 2n ** 64n - 1n]) {
    const row = ROW_EDGES.findLastIndex((edge) => edge <= duration);
    expect([duration, findDurationRow(duration)]).toEqual([duration, row]);
    if (duration < 2n ** 53n) expect([duration, findSmallDurationRow(Number(duration))]).toEqual([duration, row]);
  }
});

test('columns and sums are exact for times and durations beyond 2^53', async () => {
  const LARGE = 2n ** 63n - 1n;
  const far: Row[] = [
    { at: 0n, duration: LARGE, transaction: 'a' },
    { at: 2n ** 53n + 1n, duration: 2n ** 53n + 1n, transaction: 'b' },
    { at: LARGE, duration: 0n },
  ];
  const daemon = await servedHere(recorded(far));
  const { text } = await daemon.get(`/api/heatmap?of=events&from=0&to=${2n ** 63n}&columns=2`);
  const [from, to] = ['1970-01-01T00:00:00.000000000Z', '2262-04-11T23:47:16.854775808Z'];
  expect(text).toContain(`"from":0,"from_time":"${from}","to":${2n ** 63n},"to_time":"${to}",`);
  expect(text).toContain(`"column_ns":${2n ** 62n},"column_count":2,"first_row":0,`);
  expect(text).toContain('"cells":[[0,255,1,0],[0,303,1,0],[1,0,1,0]],');
  expect(text).toContain(`"duration_ns":{"sum":${LARGE + 2n ** 53n + 1n},"max":${LARGE}}`);
  const narrow = await daemon.get(`/api/heatmap?from=${2n ** 53n + 1n}&to=${2n ** 53n + 2n}&columns=500`);
  expect(narrow.json).toMatchObject({ column_ns: 1, column_count: 1, cells: [[0, 255, 1, 0]] });
});

test('a quotient that a double rounds up does not move a start into the next column', async () => {
  const width = 2n ** 46n + 1n;
  const ats = Array.from({ length: 100 }, (_, i) => BigInt(i + 1) * width - 1n);
  const daemon = await servedHere(recorded(ats.map((at) => ({ at, duration: 1n }))));
  const { json } = await daemon.get(`/api/heatmap?of=events&from=0&to=${width * 100n}&columns=100`);
  expect(json.cells).toEqual(ats.map((_, i) => [i, 0, 1, 0]));
});

test('without events the map is empty, with a coverage', async () => {
  const daemon = await servedHere(recorded([]));
  daemon.setNow(START);
  for (const path of ['/api/heatmap?of=events', '/api/heatmap']) {
    const { status, text } = await daemon.get(path);
    expect([status, text.includes(`"column_count":0,"first_row":0,"row_edges":[],"cells":[],`)]).toEqual([200, true]);
    expect(text).toContain('"total":{"count":0,"failed":0,"duration_ns":{"sum":0,"max":null}}');
    expect(text).toContain(`"coverage":${WHOLE}`);
  }
});

test.each([
  'of=requests',
  'columns=0',
  'columns=501',
  'columns=1.5',
  'has_error=yes',
  'bucket=1s',
  'limit=1',
  'from=5&to=4',
  'min_duration_ms=2&max_duration_ms=1',
  'failed=true',
  'event_type=x&of=transactions',
  'pid=1',
  'queued_by=order-1',
  'comm=',
  'exclude_pid=1',
  'transaction_id=tx-1',
  'trace_id=4bf92f3577b34da6a3ce929d0e0e4736',
  'has_error=true&of=events',
])('%s is refused', async (parameters) => {
  const { status, json } = await served.get(`/api/heatmap?${parameters}`);
  expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', parameters.split('=')[0]]);
});
