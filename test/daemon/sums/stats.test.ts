/** Tests sums over events against plain sums over the rows: any filter, any bucket, any grouping, several nodes. */
import fc from 'fast-check';
import { parseDuration } from '../../../daemon/base/duration.ts';
import { parseJson } from '../../../daemon/base/exact_json.ts';
import { formatTime } from '../../../daemon/base/time_text.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import {
  type BlockRow,
  type Row,
  recorded,
  recordedOn,
  recordingPath,
  START,
  WHOLE,
  type WriteRow,
} from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';

const MS = 1_000_000n;
const SERVICES = ['shop', 'cart', 'naïve 服务'];
const NODES = ['node-0', 'node-1'];

/** Rows of two nodes; a string that both share has a different dictionary id in each recording. */
const rows: { node: string; row: Row }[] = Array.from({ length: 500 }, (_, i) => {
  const common = {
    at: START + BigInt((i * 7919) % 250) * MS,
    duration: BigInt((i * 37) % 101) * 50_000n,
    service: SERVICES[(i + (i % 2)) % SERVICES.length]!,
    pid: 100 + (i % 3),
    comm: i % 5 === 0 ? 'postgres' : 'node',
    result: i % 6 === 0 ? -28n : i % 7 === 0 ? -5n : 2n ** 62n - BigInt(i),
    ...(i % 4 !== 0 && { transaction: `tx-${i % 4}` }),
  };
  const row: Row =
    i % 3 === 0
      ? { ...common, type: 'block_io', device: `sd${i % 2}`, operation: i % 2 ? 'read' : 'flush' }
      : { ...common, syscall: i % 4 ? 'writev' : 'pwrite64', ...(i % 5 && { file: `/srv/${i % 5}.log` }) };
  return { node: NODES[i % 2]!, row };
});

let served: Served;
beforeAll(async () => {
  const folders = NODES.map((node) =>
    recordedOn(
      node,
      rows.filter((one) => one.node === node).map(({ row }) => row),
    ),
  );
  served = await serve(openRecordingStore(undefined, folders.map(recordingPath)));
});
afterAll(() => served.close());

const ERRORS: Record<string, string> = { '-28': 'ENOSPC', '-5': 'EIO' };

const VALUES: Record<string, (one: (typeof rows)[number]) => string | number | null> = {
  service: ({ row }) => row.service!,
  event_type: ({ row }) => row.type ?? 'sys_write',
  node: ({ node }) => node,
  operation: ({ row }) => (row as BlockRow).operation ?? null,
  syscall: ({ row }) => (row as WriteRow).syscall ?? null,
  device: ({ row }) => (row as BlockRow).device ?? null,
  file: ({ row }) => (row as WriteRow).file ?? null,
  comm: ({ row }) => row.comm!,
  pid: ({ row }) => row.pid!,
  transaction_id: ({ row }) => row.transaction ?? null,
  error: ({ row }) => ERRORS[String(row.result)] ?? null,
};

function summed(some: readonly Row[]) {
  const results = some.map(({ result }) => result!);
  const good = results.filter((result) => result >= 0n);
  const durations = some.map(({ duration }) => duration!).sort((a, b) => (a < b ? -1 : 1));
  const at = (share: number) => durations[Math.ceil(share * durations.length) - 1] ?? null;
  return {
    count: some.length,
    error_count: results.length - good.length,
    bytes: good.reduce((sum, result) => sum + result, 0n),
    duration_ns: {
      sum: durations.reduce((sum, duration) => sum + duration, 0n),
      p50: at(0.5),
      p90: at(0.9),
      p99: at(0.99),
      max: at(1),
    },
  };
}

type Sums = ReturnType<typeof summed>;

/** Converts numbers to bigint first: small ones arrive as doubles, without loss. */
function expectSums(found: Sums, expected: Sums): void {
  const { sum, p50, p90, p99, max } = found.duration_ns;
  expect({
    ...found,
    bytes: BigInt(found.bytes),
    duration_ns: { sum: BigInt(sum), max: max === null ? null : BigInt(max) },
  }).toMatchObject({
    ...expected,
    duration_ns: { sum: expected.duration_ns.sum, max: expected.duration_ns.max },
  });
  for (const [value, exact] of [
    [p50, expected.duration_ns.p50],
    [p90, expected.duration_ns.p90],
    [p99, expected.duration_ns.p99],
  ])
    expect(Math.abs(Number(value) - Number(exact))).toBeLessThanOrEqual(Number(exact) / 128);
}

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const query = fc.record({
  bucket: optional(fc.constantFrom('1ms', '7ms', '100ms', '1m', '1000d', '1.5ms')),
  group_by: fc.subarray(Object.keys(VALUES), { maxLength: 3 }),
  service: optional(fc.constantFrom(...SERVICES)),
  node: optional(fc.constantFrom(...NODES, 'none')),
  failed: optional(fc.boolean()),
  from: optional(fc.integer({ min: -1, max: 100 }).map((ms) => START + BigInt(ms) * MS)),
  to: optional(fc.integer({ min: 100, max: 251 }).map((ms) => START + BigInt(ms) * MS)),
  pid: optional(fc.constantFrom(100, 101)),
});
type Asked = typeof query extends fc.Arbitrary<infer T> ? T : never;

const matches = ({ node, row }: (typeof rows)[number], asked: Asked) =>
  (asked.service === undefined || row.service === asked.service) &&
  (asked.node === undefined || node === asked.node) &&
  (asked.failed === undefined || row.result! < 0n === asked.failed) &&
  (asked.from === undefined || row.at >= asked.from) &&
  (asked.to === undefined || row.at < asked.to) &&
  (asked.pid === undefined || row.pid === asked.pid);

function keyOf(one: (typeof rows)[number], { bucket, group_by: names }: Asked): string {
  const length = bucket === undefined ? undefined : parseDuration(bucket)!;
  const start = length === undefined ? null : String(one.row.at - (one.row.at % length));
  return JSON.stringify([start, names.map((name) => VALUES[name]!(one))]);
}

test('sums cover exactly the events that a query selects', async () => {
  await fc.assert(
    fc.asyncProperty(query, async (asked) => {
      const parameters = new URLSearchParams();
      for (const [name, value] of Object.entries(asked))
        for (const item of [value ?? []].flat()) parameters.append(name, String(item));
      const { status, text } = await served.get(`/api/stats?${parameters}`);
      expect([status, status === 200 ? '' : text]).toEqual([200, '']);
      const answer = parseJson(text) as {
        stats: (Sums & { bucket_start_ns: bigint | number | null; group: Record<string, unknown> })[];
        total: Sums;
      };
      const chosen = rows.filter((one) => matches(one, asked));
      const expected = Map.groupBy(chosen, (one) => keyOf(one, asked));
      const keys = answer.stats.map(({ bucket_start_ns: start, group }) =>
        JSON.stringify([start === null ? null : String(start), asked.group_by.map((name) => group[name])]),
      );
      expect(keys.toSorted()).toEqual([...expected.keys()].sort());
      const starts = answer.stats.map(({ bucket_start_ns: start }) => Number(start ?? 0));
      expect(starts).toEqual(starts.toSorted((a, b) => a - b));
      for (const [i, { bucket_start_ns: _start, group: _group, ...sums }] of answer.stats.entries())
        expectSums(sums, summed(expected.get(keys[i]!)!.map(({ row }) => row)));
      expectSums(answer.total, summed(chosen.map(({ row }) => row)));
    }),
    { numRuns: 150 },
  );
}, 60_000);

test('sums are exact beyond 64 bits', async () => {
  const result = 2n ** 63n - 1n;
  const daemon = await servedHere(recorded(Array.from({ length: 5 }, () => ({ at: START, result, duration: 77n }))));
  expect((await daemon.get('/api/stats?bucket=1h&group_by=service')).text).toBe(
    `{"stats":[{"bucket_start_ns":${START},"bucket_start":"${formatTime(START)}","group":{"service":"shop"},"count":5,"error_count":0,"bytes":${5n * result},` +
      `"duration_ns":{"sum":385,"p50":77,"p90":77,"p99":77,"max":77}}],"total":{"count":5,"error_count":0,"bytes":${5n * result},` +
      `"duration_ns":{"sum":385,"p50":77,"p90":77,"p99":77,"max":77}},"coverage":${WHOLE}}`,
  );
});

test('without events the result is empty, with a coverage', async () => {
  const { status, json } = await (await servedHere(recorded([]))).get(`/api/stats?from=${START - 1n}`);
  const none = {
    count: 0,
    error_count: 0,
    bytes: 0,
    duration_ns: { sum: 0, p50: null, p90: null, p99: null, max: null },
  };
  expect([status, json.stats, json.total]).toEqual([200, [], none]);
  expect(json.coverage.losses).toMatchObject([{ cause: 'not_recorded_yet' }]);
});

test('more rows than an answer may have are refused', async () => {
  const daemon = await servedHere(recorded(Array.from({ length: 10_001 }, (_, i) => ({ at: START + BigInt(i) }))));
  const { status, json } = await daemon.get('/api/stats?bucket=1ns');
  expect([status, json.code]).toEqual([400, 'too_many_groups']);
  expect(json.detail).toContain('10000');
  expect((await daemon.get('/api/stats?bucket=1us')).json.stats.length).toBe(11);
  expect((await daemon.get(`/api/stats?bucket=1ns&to=${START + 10_000n}`)).json.stats.length).toBe(10_000);
});

test.each([
  'bucket=0s',
  'bucket=1',
  'bucket=1x',
  'bucket=',
  'group_by=',
  'group_by=color',
  'group_by=node,node',
  'limit=1',
  'cursor=x',
  'order=asc',
])('%s is refused', async (parameters) => {
  const { status, json } = await served.get(`/api/stats?${parameters}`);
  expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', parameters.split('=')[0]]);
});
