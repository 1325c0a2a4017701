/** Tests that the counts and times of a comparison are those of the plain events. */
import fc from 'fast-check';
import { parseJson } from '../../../../daemon/base/exact_json.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { computeTailProbability, findDiffering, type TestedValue } from '../../../../daemon/sums/differences/noise.ts';
import { createProfiles } from '../../../../daemon/sums/differences/profiles.ts';
import { type CarrierCounts, computeStratifiedProbability } from '../../../../daemon/sums/differences/strata.ts';
import { times } from '../../../repeats.ts';
import { type Row, recorded, recordedOn, recordingPath, START } from '../../recorded.ts';
import { type Served, serve, served as servedHere } from '../../served.ts';
import { ask, type Side } from './compared.ts';

const NODES = ['n1', 'n2'];

interface Event {
  event_type: string;
  timestamp_ns: number | bigint;
  duration_ns: number;
  queue_ns?: number | null;
  transaction_id: string | null;
  attribution: { source: string };
  node: string;
  tid: number;
  result: number;
  queued_by?: { transaction_id: string | null } | null;
  origins?: { transaction_id: string | null }[];
  [field: string]: unknown;
}

const FIELDS = ['event_type', 'operation', 'syscall', 'device', 'comm', 'file', 'error', 'node', 'service_name'];
const valuesOf = (event: Event) =>
  FIELDS.flatMap((field) =>
    typeof event[field] === 'string' ? [`${field.replace('_name', '')} ${event[field]}`] : [],
  );

/** Small times, so that each nanosecond can be looked at. */
const event = fc.record({
  transaction: fc.integer({ min: 0, max: 69 }),
  at: fc.integer({ min: 0, max: 60 }),
  duration: fc.integer({ min: 0, max: 40 }),
  queue: fc.option(fc.integer({ min: 0, max: 30 })),
  tid: fc.constantFrom(7, 8),
  kind: fc.constantFrom('write', 'sync', 'own request', 'request', 'write-back'),
  node: fc.constantFrom(0, 1),
  device: fc.constantFrom('sda', 'sdb'),
  queuer: fc.option(fc.integer({ min: 0, max: 69 })),
  isSameQueuer: fc.boolean(),
  failed: fc.boolean(),
});
type Drawn = typeof event extends fc.Arbitrary<infer T> ? T : never;

function drawnRow({ transaction, at, duration, queue, tid, kind, device, queuer, isSameQueuer, failed }: Drawn): Row {
  const queuedBy = isSameQueuer ? transaction : queuer;
  const owner = { transaction: `tx-${transaction}` };
  const times = { at: START + BigInt(transaction * 1000 + at), duration: BigInt(duration) };
  const common = { ...times, tid, result: failed ? -5n : 0n };
  if (kind === 'write') return { ...common, ...owner, file: `/f/${device}` };
  if (kind === 'sync') return { ...common, ...owner, type: 'sys_sync' };
  const request = {
    ...{ ...common, type: 'block_io' as const, device },
    ...(queue !== null && { queue: BigInt(queue) }),
    ...(queuedBy !== null && { queuedBy: { service: 'any', transaction: `tx-${queuedBy}` } }),
  } as const;
  if (kind === 'own request') return { ...request, ...owner };
  if (kind === 'write-back') return { ...request, ...owner, source: 'origin' };
  return { ...request, service: 'kernel', origins: [{ ...owner, bytes: 1n }] };
}

interface Plain {
  duration: number;
  failed: boolean;
  values: Set<string>;
  parts: Record<string, number>;
}

const PARTS = ['queue_ns', 'service_ns', 'sync_ns', 'write_ns', 'request_ns', 'untraced_ns'];

/** Until when the thread that queued a request may have waited for it, by the words of the rule; null if not known. */
function waitedUntil(one: Event, own: readonly Event[], startOf: (event: Event) => number): number | null {
  const spanOf = (event: Event) => [startOf(event), startOf(event) + event.duration_ns] as const;
  const [start, end] = spanOf(one);
  const calls = own
    .filter(({ event_type, node, tid }) => event_type !== 'block_io' && node === one.node && tid === one.tid)
    .map(spanOf)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const before = calls.findLast(([from]) => from <= start);
  if (before && start < before[1]) return before[1];
  return calls.some(([from]) => from > start && from < end) ? start : null;
}

function plainOf(id: string, all: readonly Event[]): Plain {
  const isOwner = ({ transaction_id }: Event) => transaction_id === id;
  const named = all.filter(isOwner);
  const startOf = ({ timestamp_ns }: Event) => Number(BigInt(timestamp_ns) - START);
  const known = all.filter((one) => isOwner(one) || one.origins?.some(({ transaction_id }) => transaction_id === id));
  const own = named.filter(({ attribution }) => attribution.source !== 'origin');
  const first = Math.min(...(own.length > 0 ? own : known).map(startOf));
  const end = Math.max(first, ...own.map((one) => startOf(one) + one.duration_ns));
  const runs = (one: Event, ns: number) => startOf(one) <= ns && ns < startOf(one) + one.duration_ns;
  const waits = (one: Event, ns: number) => runs(one, ns) && ns < startOf(one) + (one.queue_ns ?? 0);
  const syncs = own.filter(({ event_type }) => event_type === 'sys_sync');
  const queued = all.filter((one) => one.queued_by?.transaction_id === id && !own.includes(one));
  const its = known.filter((one) => !own.includes(one) && !queued.includes(one));
  const parts: Record<string, number> = Object.fromEntries(PARTS.map((name) => [name, 0]));
  const values = new Set([...own.flatMap(valuesOf), ...queued.map(({ device }) => `device ${device}`)]);
  for (let ns = first; ns < end; ns++) {
    const waited = its.filter((one) => runs(one, ns) && syncs.some((sync) => sync.node === one.node && runs(sync, ns)));
    const mine = [...own.filter(({ event_type }) => event_type === 'block_io'), ...queued];
    const untilOf = (one: Event) => waitedUntil(one, own, startOf);
    const isSynced = (one: Event) => syncs.some((sync) => sync.node === one.node && runs(sync, ns));
    const inCall = mine.filter((one) => untilOf(one) !== null && (ns < untilOf(one)! || isSynced(one)));
    const requests = [...inCall, ...waited];
    const isRunning = (type: string) => own.some((one) => one.event_type === type && runs(one, ns));
    for (const { device } of waited) values.add(`device ${device}`);
    if (requests.some((one) => waits(one, ns))) parts.queue_ns!++;
    else if (requests.some((one) => runs(one, ns))) parts.service_ns!++;
    else if (isRunning('sys_sync')) parts.sync_ns!++;
    else if (isRunning('sys_write')) parts.write_ns!++;
    else if (mine.some((one) => runs(one, ns) && untilOf(one) === null)) parts.request_ns!++;
    else parts.untraced_ns!++;
  }
  return { duration: end - first, failed: known.some(({ result }) => result < 0), values, parts };
}

const totalOf = (some: readonly Plain[]) => {
  const sum = (of: (one: Plain) => number) => some.reduce((total, one) => total + of(one), 0);
  return {
    count: some.length,
    duration_ns: sum(({ duration }) => duration),
    breakdown: Object.fromEntries(PARTS.map((name) => [name, sum(({ parts }) => parts[name]!)])),
  };
};

function expectSide({ median, ...sums }: Side, plain: readonly Plain[]): void {
  expect(sums).toEqual(totalOf(plain));
  const expectMedian = (found: number, of: (one: Plain) => number) => {
    const exact = plain.map(of).sort((a, b) => a - b)[Math.ceil(plain.length / 2) - 1] ?? 0;
    expect(Math.abs(found - exact)).toBeLessThanOrEqual(exact / 128);
  };
  expectMedian(median.duration_ns, ({ duration }) => duration);
  for (const name of PARTS) expectMedian(median.breakdown[name]!, ({ parts }) => parts[name]!);
}

test('counts and times are those of the events, looked at nanosecond by nanosecond', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 150, maxLength: 400 }), fc.boolean(), async (drawn, failed) => {
      const paths = [0, 1].map((node) => {
        const rows = drawn.filter((one) => one.node === node).map(drawnRow);
        return recordingPath(recordedOn(NODES[node]!, rows));
      });
      const daemon = await serve(openRecordingStore(undefined, paths));
      const events = (await daemon.lines('/api/events')).map((line) => parseJson(line) as Event);
      const owners = events.flatMap(({ transaction_id, origins = [] }) => [
        transaction_id,
        ...origins.map((origin) => origin.transaction_id),
      ]);
      const plain = [...new Set(owners.filter((id) => id !== null))].map((id) => plainOf(id, events));
      const answer = await ask(daemon, `failed=${failed}`);
      const [selected, others] = [true, false].map((is) => plain.filter((one) => (one.failed === failed) === is));
      expectSide(answer.selected, selected!);
      expectSide(answer.others, others!);
      for (const { field, value, ...counts } of answer.differences.flatMap(({ values }) => values)) {
        if (value.endsWith('/')) continue;
        const having = (some: readonly Plain[]) => some.filter(({ values }) => values.has(`${field} ${value}`)).length;
        expect([field, value, counts]).toEqual([
          field,
          value,
          { selected: having(selected!), others: having(others!) },
        ]);
      }
      await daemon.close();
    }),
    { numRuns: times(8) },
  );
}, 120_000);

test('events are compared one by one', async () => {
  const rows: Row[] = Array.from({ length: 400 }, (_, i) => ({
    ...{ type: 'block_io', at: START + BigInt(i), duration: i % 4 === 0 ? 1000n : 10n, queue: 5n, result: 0n },
    ...{ device: i % 4 === 0 ? 'slow' : 'fast', comm: i % 3 === 0 ? 'backup' : 'node' },
  }));
  const daemon = await servedHere(recorded(rows));
  const answer = await ask(daemon, 'of=events&min_duration_ms=0.0005');
  expect(answer.differences).toEqual([
    {
      values: [{ field: 'device', value: 'slow', selected: 100, others: 0 }],
    },
    { values: [{ field: 'device', value: 'fast', selected: 0, others: 300 }] },
  ]);
  expect(answer.selected).toMatchObject({
    count: 100,
    duration_ns: 100_000,
    breakdown: { queue_ns: 500, service_ns: 99_500 },
    median: { duration_ns: 1000, breakdown: { queue_ns: 5, service_ns: 995, write_ns: 0 } },
  });
  expect(answer).toMatchObject({ event_count: 400, left_out: [], too_few: false });
  expect(answer.equal).toEqual(['service', 'node', 'event_type', 'operation', 'syscall', 'comm', 'file', 'error']);
  const narrow = await ask(daemon, `of=events&min_duration_ms=0.0005&comm=node&window_to=${START + 200n}`);
  expect(narrow.selected.count + narrow.others.count).toBe(
    rows.slice(0, 200).filter(({ comm }) => comm === 'node').length,
  );
});

test('a field with too many values is left out, and the others are compared', async () => {
  const rows: Row[] = Array.from({ length: 60 }, (_, i) => ({ at: START + BigInt(i), file: `/d/${i}` }));
  const store = openRecordingStore(recorded(rows));
  const profiles = createProfiles(10);
  for (const scanned of store.scan({ filter: {}, order: 'asc' })) profiles.assignNumbers(scanned);
  for (const scanned of store.scan({ filter: {}, order: 'asc' })) profiles.assignNumbers(scanned);
  expect([...profiles.leftOut][0]).toBe('file');
  store.close();
});

test('probabilities are those of exact fractions', () => {
  const choices = (n: number, k: number): bigint => {
    let result = 1n;
    for (let i = 0; i < k; i++) result = (result * BigInt(n - i)) / BigInt(i + 1);
    return result;
  };
  for (const [selected, others, sizes] of [
    [5, 1, { selected: 30, others: 100 }],
    [0, 40, { selected: 40, others: 90 }],
    [30, 12, { selected: 30, others: 200 }],
    [12, 40, { selected: 60, others: 200 }],
  ] as const) {
    const carriers = selected + others;
    const all = choices(sizes.selected + sizes.others, sizes.selected);
    const isMany = selected / sizes.selected >= others / sizes.others;
    let ways = 0n;
    for (let k = 0; k <= Math.min(carriers, sizes.selected); k++) {
      if (isMany ? k < selected : k > selected) continue;
      ways += choices(carriers, k) * choices(sizes.selected + sizes.others - carriers, sizes.selected - k);
    }
    const exact = Math.min(1, (2 * Number((ways * 10n ** 60n) / all)) / 1e60);
    expect(computeTailProbability({ selected, others }, sizes) / exact).toBeCloseTo(1, 9);
  }
});

test('probabilities in strata are those of all ways to choose, and near them where there are many', () => {
  const choices = (n: number, k: number) =>
    k < 0 || k > n ? 0 : Array.from({ length: k }, (_, i) => (n - i) / (i + 1)).reduce((a, b) => a * b, 1);
  const log = (count: number, carriers: number, { selected, others }: CarrierCounts) =>
    Math.log(
      (choices(carriers, count) * choices(selected + others - carriers, selected - count)) /
        choices(selected + others, selected),
    );
  const strata = [
    { selected: 4, others: 1, sizes: { selected: 6, others: 9 } },
    { selected: 3, others: 2, sizes: { selected: 5, others: 20 } },
    { selected: 0, others: 1, sizes: { selected: 3, others: 3 } },
  ];
  const pmf = strata.map(({ selected, others, sizes }) =>
    Array.from({ length: selected + others + 1 }, (_, k) => Math.exp(log(k, selected + others, sizes)) || 0),
  );
  let many = 0;
  for (const [a, p] of pmf[0]!.entries())
    for (const [b, q] of pmf[1]!.entries())
      for (const [c, r] of pmf[2]!.entries()) if (a + b + c >= 7) many += p * q * r;
  expect(computeStratifiedProbability(strata, log) / (2 * many)).toBeCloseTo(1, 9);
  const wide = { selected: 20_400, others: 20_000, sizes: { selected: 40_000, others: 40_000 } };
  const halves = [
    { selected: 10_200, others: 10_000, sizes: { selected: 20_000, others: 20_000 } },
    { selected: 10_200, others: 10_000, sizes: { selected: 20_000, others: 20_000 } },
  ];
  const never = () => {
    throw new Error('not needed');
  };
  expect(computeStratifiedProbability(halves, never) / computeTailProbability(wide, wide.sizes)).toBeCloseTo(1, 1);
});

test('tests in many strata let other work run', () => {
  const strata = Array.from({ length: 50 }, () => ({
    selected: 60,
    others: 40,
    sizes: { selected: 100, others: 100 },
  }));
  const steps = findDiffering(Array(20).fill({ selected: 60, others: 40, strata }), { selected: 100, others: 100 });
  let yields = 0;
  let step = steps.next();
  for (; !step.done; step = steps.next()) yields++;
  expect(yields).toBeGreaterThanOrEqual(5);
  expect(step.value.found).toHaveLength(20);
});

test('a value that is more frequent among the selected, and less in each stratum, is not found', () => {
  const strata = [
    { selected: 4500, others: 600, sizes: { selected: 9000, others: 1000 } },
    { selected: 0, others: 900, sizes: { selected: 1000, others: 9000 } },
  ];
  const resultOf = (value: TestedValue) => {
    const steps = findDiffering([value], { selected: 10_000, others: 10_000 });
    for (let step = steps.next(); ; step = steps.next()) if (step.done) return step.value.found;
  };
  expect(resultOf({ selected: 4500, others: 1500 })).toEqual([0]);
  expect(resultOf({ selected: 4500, others: 1500, strata })).toEqual([]);
});

describe('bad input', () => {
  let daemon: Served;
  beforeAll(async () => {
    daemon = await serve(recorded([{ at: START, transaction: 'tx' }]));
  });
  afterAll(() => daemon.close());

  test.each([
    'of=all',
    'from=5&to=4',
    'window_from=5&window_to=4',
    'min_duration_ms=2&max_duration_ms=1',
    'window_min_duration_ms=2&window_max_duration_ms=1',
    'failed=maybe',
    'window_failed=1',
    'pid=1',
    'comm=',
    'exclude_pid=1',
    'event_type=x',
    'event_type=x&of=events',
    'transaction_id=tx',
    'has_error=true',
    'limit=1',
    'columns=1',
  ])('%s is refused', async (parameters) => {
    const { status, json } = await daemon.get(`/api/differences?${parameters}`);
    expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', parameters.split('=')[0]]);
  });
});
