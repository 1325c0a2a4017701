/** What is compared, and how it is said, against sums made one by one. */
import fc from 'fast-check';
import { addTimeTexts } from '../../daemon/base/time_text.ts';
import { createLanes } from '../../daemon/model/lanes/model.ts';
import { type ComparedReport, computeDifference, readReport } from '../../daemon/model/run_difference.ts';
import { callSums } from '../../daemon/page/compare/call_sums.ts';
import { compareReports } from '../../daemon/page/compare/report_rows.ts';
import { changeSentence } from '../../daemon/page/compare/sentence.ts';
import { type CallTotals, joinSums, selectQuantile } from '../../daemon/page/compare/sums.ts';
import { toWindowSums } from '../../daemon/page/compare/window_sums.ts';
import { columnsOf, type MadeEvent } from '../daemon/model/columns/made_columns.ts';

const int64 = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
const duration = fc.oneof(
  fc.integer({ min: 0, max: 1000 }),
  fc.constantFrom(Number.MAX_SAFE_INTEGER, 2 ** 52 + 1),
  fc.constantFrom(2n ** 53n + 1n, 2n ** 63n - 1n),
);
const event = fc.record({
  start: fc.integer({ min: 0, max: 10_000 }),
  duration,
  type: fc.constantFrom('sys_write' as const, 'sys_sync' as const, 'block_io' as const),
  target: fc.constantFrom('/a', '__proto__', null),
  service: fc.constantFrom('shop', 'constructor'),
  tid: fc.integer({ min: 1, max: 3 }),
  transaction: fc.constantFrom('order-1', 'order-2', null),
  source: fc.constantFrom('marker', 'origin'),
  result: fc.constantFrom(0, -5),
});

const sumsByKey = (sums: readonly CallTotals[]) =>
  new Map(sums.map(({ call, target, service, ...rest }) => [JSON.stringify([call, target, service]), rest]));

test('calls are summed by call, file and service, to the nanosecond', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events: Partial<MadeEvent>[]) => {
      const model = createLanes(columnsOf(events), { transactions: new Set(['order-1']) });
      const own = events.filter((one) => one.transaction === 'order-1' && one.source !== 'origin');
      const callOf = ({ type }: Partial<MadeEvent>) => (type === 'sys_sync' ? 'fsync' : 'write');
      const groups = Map.groupBy(own, (one) => JSON.stringify([callOf(one), one.target, one.service]));
      const expected = [...groups].map(([key, some]) => {
        const ascending = some.map((one) => BigInt(one.duration!)).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
        const at = (share: number) => ascending.find((_, i) => (i + 1) / ascending.length >= share - 1e-12)!;
        const failed = some.filter(({ result }) => Number(result) < 0).length;
        const totalNs = ascending.reduce((sum, ns) => sum + ns, 0n);
        return [key, { count: some.length, failed, totalNs, p50Ns: at(0.5), p99Ns: at(0.99) }] as const;
      });
      expect(sumsByKey(callSums(model))).toEqual(new Map(expected));
    }),
  );
});

const sums = fc.uniqueArray(
  fc.record({
    call: fc.constantFrom('write', 'fsync', '__proto__'),
    target: fc.constantFrom('/a', 'sda', null),
    service: fc.constantFrom('a', 'b'),
    count: fc.integer({ min: 1, max: 9 }),
    failed: fc.constant(0),
    totalNs: int64,
    p50Ns: int64,
    p99Ns: int64,
  }),
  { selector: ({ call, target, service }) => JSON.stringify([call, target, service]) },
);
const length = fc.bigInt({ min: 1n, max: 10n ** 14n });

test('two sides are joined: every row of either is kept once, the largest change first', () => {
  fc.assert(
    fc.property(sums, sums, fc.option(fc.record({ a: length, b: length })), (a, b, lengths) => {
      const rows = joinSums(a, b, lengths);
      expect(rows.flatMap((row) => row.a ?? []).toSorted(byName)).toEqual(a.toSorted(byName));
      expect(rows.flatMap((row) => row.b ?? []).toSorted(byName)).toEqual(b.toSorted(byName));
      for (const row of rows) {
        const names = [row.a, row.b].flatMap((one) => (one ? [[one.call, one.target, one.service]] : []));
        expect(names.every((name) => JSON.stringify(name) === JSON.stringify(names[0]))).toBe(true);
        const rate = (one: CallTotals | null, of: bigint | undefined) =>
          ((one?.totalNs ?? 0n) * (of ? 1_000_000_000n : 1n)) / (of ?? 1n);
        expect(row.changeNs).toBe(rate(row.b, lengths?.b) - rate(row.a, lengths?.a));
      }
      const sizes = rows.map(({ changeNs }) => (changeNs < 0n ? -changeNs : changeNs));
      expect(sizes).toEqual(sizes.toSorted((one, other) => (one > other ? -1 : one < other ? 1 : 0)));
    }),
  );
});

const byName = (one: CallTotals, other: CallTotals) => {
  const [a, b] = [one, other].map(({ call, target, service }) => JSON.stringify([call, target, service]));
  return a! < b! ? -1 : 1;
};

test('sums of a window are those of the answer', () => {
  const group = { service: 'db', event_type: 'block_io', operation: 'write', syscall: null, device: 'sda' };
  const duration_ns = { sum: 2n ** 63n, p50: 1, p99: 2n ** 53n + 1n };
  const coverage = {
    complete: true,
    lost: 0,
    losses: [],
    ...addTimeTexts({ recorded_until: null }),
    nodes: [],
    node_count: 0,
  };
  expect(toWindowSums({ stats: [{ group, count: 3, error_count: 1, duration_ns }], coverage })).toEqual([
    {
      ...{ call: 'write', target: 'sda', service: 'db', count: 3, failed: 1 },
      ...{ totalNs: 2n ** 63n, p50Ns: 1n, p99Ns: 2n ** 53n + 1n },
    },
  ]);
});

describe('the sentence', () => {
  const MS = 1_000_000n;
  const said = (...changes: (readonly [name: string, ms: number])[]) =>
    changeSentence(
      changes.map(([name, ms]) => ({ name, changeNs: BigInt(Math.round(ms * 10)) * (MS / 10n) })),
      { a: 'A', b: 'B' },
    );

  test.each([
    [[['x', 0]], 'B took as long as A.'],
    [[], 'B took as long as A.'],
    [[['x', 12.4]], 'B took 12.4 ms longer than A, all of it in x.'],
    [
      [
        ['x', 11.8],
        ['y', 0.6],
      ],
      'B took 12.4 ms longer than A: 11.8 ms of it in x.',
    ],
    [
      [
        ['x', -3],
        ['y', -4],
        ['z', 1],
      ],
      'B took 6.00 ms less than A: 4.00 ms of it in y.',
    ],
    [
      [
        ['x', 20],
        ['y', -8],
      ],
      'B took 12.0 ms longer than A: x took 20.0 ms longer, and the others 8.00 ms less.',
    ],
    [
      [
        ['x', 20],
        ['y', -20],
      ],
      'B took as long as A altogether: x took 20.0 ms longer, and y 20.0 ms less.',
    ],
  ] as [(readonly [string, number])[], string][])('%j', (changes, expected) => expect(said(...changes)).toBe(expected));

  test('never says that a part is more of the change than the change', () => {
    const parts = fc.array(fc.record({ name: fc.constant('x'), changeNs: fc.bigInt({ min: -999n, max: 999n }) }), {
      minLength: 1,
    });
    fc.assert(
      fc.property(parts, (some) => {
        const text = changeSentence(some, { a: 'A', b: 'B' });
        const [, whole, part] = /took (\d+) ns .*: (\d+) ns of it/.exec(text) ?? [];
        if (part !== undefined) expect(Number(part)).toBeLessThanOrEqual(Number(whole));
        const sum = some.reduce((total, { changeNs }) => total + changeNs, 0n);
        expect(text.includes('as long as')).toBe(sum === 0n);
      }),
    );
  });
});

const count = fc.integer({ min: 0, max: 20 });
const stream = fc.record({
  op_class: fc.constantFrom('write', 'sync'),
  path: fc.constantFrom('/a', '/b', '__proto__'),
  role: fc.constantFrom('w', '"]'),
  recorded_events: count,
  planned_ns: fc.option(count),
  calls: count,
  took_ns: count,
});
const report: fc.Arbitrary<ComparedReport> = fc.array(stream, { maxLength: 8 }).map((streams) => ({
  verdict: 'replayed',
  settings: { transaction_id: 'order-1', command: ['./build'] },
  ended: { code: 0, duration_ns: 5 },
  figures: { calls: 0, first_divergence_ns: null, streams },
}));

test('one report beside its incident, or beside another, is what kreplay diff shows', () => {
  fc.assert(
    fc.property(fc.option(report), report, (before, after) => {
      const expected = computeDifference(after, before ?? undefined);
      const found = compareReports(before ? [before] : [], [after]);
      expect(found.beside).toBe(expected.beside);
      expect(found.took_ns.map(({ median }) => median)).toEqual(expected.took_ns);
      const shown = found.rows.map(({ op_class, path, role, calls, took_ns, verdict }) => ({
        ...{ op_class, path, role, calls: calls.map((band) => band!.median) },
        took_ns: took_ns.map((band) => band?.median ?? null),
        change: verdict === 'new' || verdict === 'vanished' ? verdict : 'same',
      }));
      const inOrder = (rows: readonly { path: string; op_class: string; role: string }[]) =>
        rows.toSorted((a, b) =>
          JSON.stringify([a.path, a.op_class, a.role]) < JSON.stringify([b.path, b.op_class, b.role]) ? -1 : 1,
        );
      expect(inOrder(shown)).toEqual(inOrder(expected.streams));
      const sizes = found.rows.map(({ took_ns: [a, b] }) => Math.abs((b?.median ?? 0) - (a?.median ?? 0)));
      expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
    }),
  );
});

test('of repeated runs there is a band, and no verdict where bands meet', () => {
  fc.assert(
    fc.property(fc.array(report, { maxLength: 12 }), fc.array(report, { minLength: 1, maxLength: 12 }), (a, b) => {
      const { rows } = compareReports(a, b);
      const tookOf = (reports: readonly ComparedReport[], { op_class, path, role }: (typeof rows)[number]) =>
        reports.map(({ figures }) =>
          figures.streams
            .filter((one) => one.op_class === op_class && one.path === path && one.role === role)
            .reduce((sum, { took_ns }) => sum + took_ns, 0),
        );
      for (const row of rows) {
        const band = row.took_ns[1]!;
        const ascending = tookOf(b, row).toSorted((one, other) => one - other);
        expect([band.p10, band.median, band.p90]).toEqual(
          [0.1, 0.5, 0.9].map((share) => selectQuantile(ascending, share)),
        );
        const before = row.took_ns[0];
        if (a.length > 0) expect(before!.count).toBe(a.length);
        if (!before || row.verdict === 'new' || row.verdict === 'vanished') continue;
        const meet = before.p10 <= band.p90 && band.p10 <= before.p90;
        expect(row.verdict === 'longer' || row.verdict === 'less').toBe(!meet);
      }
    }),
  );
});

test.each([
  ['', 'is not a report of kreplay run: give a file that --report has written'],
  ['null', 'is not a report of kreplay run, or is of another version'],
  ['[]', 'is not a report of kreplay run, or is of another version'],
  ['{"kreplay_run":2}', 'is a report of version 2 of kreplay run, not 1'],
  ['{"kreplay_run":"1"}', 'is not a report of kreplay run, or is of another version'],
  ['{"__proto__":{"kreplay_run":1}}', 'is not a report of kreplay run, or is of another version'],
])('%s is refused in words', (text, problem) => expect(readReport(text)).toEqual({ problem }));

test('a report with one wrong field is none', () => {
  fc.assert(
    fc.property(
      report,
      fc.constantFrom('op_class', 'path', 'role', 'recorded_events', 'calls', 'took_ns'),
      (one, name) => {
        const text = (figures: object) => JSON.stringify({ kreplay_run: 1, ...one, figures });
        expect(readReport(text(one.figures))).toMatchObject({ report: one });
        if (one.figures.streams.length === 0) return;
        for (const wrong of [null, -1, [], {}])
          expect(
            readReport(
              text({ ...one.figures, streams: [...one.figures.streams, { ...one.figures.streams[0], [name]: wrong }] }),
            ),
          ).toHaveProperty('problem');
      },
    ),
  );
  expect(
    readReport(
      '{"kreplay_run":1,"verdict":"x","settings":{"transaction_id":"","command":[]},"ended":null,"figures":{"calls":1e999,"first_divergence_ns":null,"streams":[]}}',
    ),
  ).toHaveProperty('problem');
});
