/** The words of an overview for answers that recordings seldom give: huge sums, narrowed windows, fields left out. */

import fc from 'fast-check';
import type { ComparedSide, DifferencesAnswer, DifferentValue } from '../../daemon/contract/received.ts';
import { PARTS } from '../../daemon/page/lanes/breakdown.ts';
import { OPEN_BOX } from '../../daemon/page/map/box.ts';
import type { LatencyMap, Selection } from '../../daemon/page/map/questions.ts';
import { computeMapScale, mergeCells } from '../../daemon/page/map/scale.ts';
import { describeOverview } from '../../daemon/page/map/sentence.ts';
import { formatBox, mapSummary } from '../../daemon/page/map/summary.ts';
import { computeMeans, findLargestExtra } from '../../daemon/page/map/time_spent.ts';
import { formatFieldValue, formatRowClause } from '../../daemon/page/map/wording.ts';
import { BASE, mapAnswer } from './made_map.ts';

const sums = fc.tuple(...PARTS.map(() => fc.bigInt({ min: 0n, max: 2n ** 70n })));
const side = fc
  .record({ count: fc.integer({ min: 1, max: 1_000_000 }), sums })
  .map(({ count, sums: parts }): ComparedSide => {
    const breakdown = Object.fromEntries(PARTS.map((part, at) => [`${part}_ns`, parts[at]!]));
    const duration_ns = parts.reduce((sum, ns) => sum + ns, 0n);
    return { count, duration_ns, breakdown: breakdown as ComparedSide['breakdown'] };
  });

test('means are within half a nanosecond of the exact sums, and the largest extra part is that of the sums', () => {
  fc.assert(
    fc.property(side, side, (selected, others) => {
      const means = [computeMeans(selected), computeMeans(others)] as const;
      for (const [at, one] of [selected, others].entries())
        for (const part of PARTS) {
          const error = means[at]!.parts[part] * BigInt(one.count) - BigInt(one.breakdown[`${part}_ns`]);
          expect(2n * (error < 0n ? -error : error) <= BigInt(one.count)).toBe(true);
        }
      const extra = (part: (typeof PARTS)[number]) => means[0].parts[part] - means[1].parts[part];
      const most = PARTS.map(extra).reduce((a, b) => (b > a ? b : a));
      const ofNs = means[0].durationNs - means[1].durationNs;
      const found = findLargestExtra(...means);
      if (ofNs > 0n && most > 0n) expect(found).toMatchObject({ ns: most, ofNs });
      else expect(found).toBeNull();
    }),
  );
});

const made = (durationsNs: readonly bigint[]): LatencyMap => {
  const answer = mapAnswer(
    durationsNs.map((durationNs, at) => ({ at: BASE + BigInt(at), durationNs, failed: at === 0 })),
  );
  const scale = computeMapScale(answer);
  const about = { key: '', of: 'transactions', isUnlabelled: false, filters: '', isFailedOnly: false } as const;
  return { ...about, answer, scale, cells: mergeCells(answer, scale) };
};
const map = made([1_000n, 2n ** 63n - 1n]);
const sideOf = (count: number, ns: bigint): ComparedSide => ({
  ...{ count, duration_ns: ns },
  breakdown: { queue_ns: 0n, service_ns: 0n, sync_ns: ns, write_ns: 0n, request_ns: 0n, untraced_ns: 0n },
});
const answerOf = (change: Partial<DifferencesAnswer>): DifferencesAnswer => ({
  ...{
    of: 'transactions',
    window: { from: null, to: null, narrowed: false },
    selected: sideOf(40, 40_000_000n),
    others: sideOf(60, 6_000_000n),
  },
  ...{
    event_count: 100,
    too_few: false,
    tried: 0,
    differences: [],
    more: 0,
    equal: [],
    left_out: [],
    coverage: map.answer.coverage,
  },
  ...change,
});
const slowest: Selection = { kind: 'slowest', box: { ...OPEN_BOX, box_min: 1_000_000n }, isFailed: false };

test('what limits a comparison is said', () => {
  const value: DifferentValue = { field: 'device', value: 'sda', selected: 2, others: 30 };
  const rare = answerOf({ window: { from: null, to: null, narrowed: true }, differences: [{ values: [value] }] });
  expect(describeOverview(map, slowest, rare)).toBe(
    'The slowest 40 % (40 of 100) took 1.00 ms or more; the rest 100.0 µs in the mean. They are compared with those of the same time only. Only 5.0 % of them used device sda, of the rest 50 %. The rest of their syncs is 900.0 µs of the extra 900.0 µs.',
  );
  expect(describeOverview(map, slowest, answerOf({ left_out: ['file'] }))).toContain(
    'No difference outside noise; not compared: file.',
  );
  const all = answerOf({ others: sideOf(0, 0n), too_few: true });
  expect(describeOverview(map, slowest, all)).toBe(
    'All of 40 transactions took 1.00 ms or more. Too few to compare: 30 selected and 30 others are needed.',
  );
  const same = answerOf({ others: sideOf(60, 600_000_000n) });
  expect(describeOverview(map, slowest, same)).toMatch(/No difference outside noise\.$/);
});

test('values of one row are joined, and names are shown safely', () => {
  const counts = { selected: 1, others: 0 };
  const values = (fields: readonly (readonly [DifferentValue['field'], string])[]) =>
    fields.map(([field, value]) => ({ field, value, ...counts }));
  const row = values([
    ['node', 'n2'],
    ['device', 'nvme1n1'],
    ['file', '/srv/wal/1'],
    ['file', '/srv/wal/'],
    ['file', '/srv/x'],
    ['error', 'ENOSPC'],
  ]);
  expect(formatRowClause(row, 'transactions', (name) => name)).toBe(
    'used device nvme1n1, touched file /srv/wal/1, files in /srv/wal/ and 1 more and failed with ENOSPC on node n2',
  );
  const neighbours = ['backup', 'cron'].map(
    (value): DifferentValue => ({ ...{ field: 'neighbour', value, device: 'vda' }, ...counts }),
  );
  expect(formatRowClause([...values([['device', 'vda']]), ...neighbours], 'transactions', (name) => `«${name}»`)).toBe(
    'used device «vda» and shared device «vda» with «backup» and «cron»',
  );
  expect(formatFieldValue(neighbours[0]!, (name) => name)).toBe('neighbour backup on device vda');
  expect(formatRowClause(values([['node', '<b>']]), 'events', (name) => `«${name}»`)).toBe('were on node «<b>»');
});

test('a map and a box are in words, up to the longest duration', () => {
  expect(mapSummary(map, slowest)).toBe(
    'Map of 2 transactions by start and duration, up to 106 752 d 0 h; 1 failed; the box has 1.00 ms or more, 00:00:00.0000000 to 00:00:00.0000100. Arrows move the box, Shift and arrows change its size, Escape clears it, V shows a table.',
  );
  expect(formatBox(map, { ...OPEN_BOX, box_min: 1_000n, box_max: 2n ** 63n - 1n })).toMatch(
    /^1\.00 µs to 106 752 d 0 h, /,
  );
});
