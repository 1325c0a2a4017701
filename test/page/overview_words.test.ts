/** The words of an overview for answers that recordings seldom give: huge sums, narrowed windows, fields left out. */

import fc from 'fast-check';
import { addTimeTexts } from '../../daemon/base/time_text.ts';
import type { ComparedSide, DifferencesAnswer, DifferentValue } from '../../daemon/contract/received.ts';
import { PARTS } from '../../daemon/model/lanes/breakdown.ts';
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
    const times = { duration_ns, breakdown: breakdown as ComparedSide['breakdown'] };
    return { count, ...times, median: times };
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
/** Times that are all in syncs. */
const timesOf = (ns: bigint) => ({
  duration_ns: ns,
  breakdown: { queue_ns: 0n, service_ns: 0n, sync_ns: ns, write_ns: 0n, request_ns: 0n, untraced_ns: 0n },
});
/** A side with a sum, and with a median that is another time, as after an outlier. */
const sideOf = (count: number, sumNs: bigint, medianNs = sumNs / BigInt(Math.max(count, 1))): ComparedSide => ({
  count,
  ...timesOf(sumNs),
  median: timesOf(medianNs),
});
const answerOf = (change: Partial<DifferencesAnswer>): DifferencesAnswer => ({
  ...{
    of: 'transactions',
    window: { ...addTimeTexts({ from: null, to: null }), narrowed: false },
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
  const rare = answerOf({
    window: { ...addTimeTexts({ from: null, to: null }), narrowed: true },
    differences: [{ values: [value] }],
  });
  expect(describeOverview(map, slowest, rare)).toBe(
    'The slowest 40 % (40 of 100) took 1.00 ms or more; the rest 100.0 µs in the median. They are compared with those of the same time only. Only 5.0 % of them used device sda, of the rest 50 %. The rest of their syncs is 900.0 µs of the extra 900.0 µs in the mean.',
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

test('one outlier does not change the typical times', () => {
  const answer = answerOf({ others: sideOf(60, 10n ** 15n, 100_000n) });
  expect(describeOverview(map, slowest, answer)).toMatch(/the rest 100\.0 µs in the median\. /);
});

test('parts of the extra time add up to no more than the extra time', () => {
  const inParts = (count: number, queueNs: bigint, writeNs: bigint, medianQueueNs: bigint): ComparedSide => {
    const of = (queue_ns: bigint) => ({
      duration_ns: queue_ns + writeNs,
      breakdown: { queue_ns, service_ns: 0n, sync_ns: 0n, write_ns: writeNs, request_ns: 0n, untraced_ns: 0n },
    });
    const { duration_ns, breakdown } = of(queueNs);
    const n = BigInt(count);
    const sums = Object.fromEntries(Object.entries(breakdown).map(([name, ns]) => [name, ns * n]));
    return {
      count,
      duration_ns: duration_ns * n,
      breakdown: sums as ComparedSide['breakdown'],
      median: of(medianQueueNs),
    };
  };
  const ms = 1_000_000n;
  // In the median the queue alone took 60 ms longer, and the whole 50 ms.
  const answer = answerOf({
    selected: inParts(40, 30n * ms, 70n * ms, 60n * ms),
    others: inParts(60, 0n, 50n * ms, 0n),
  });
  expect(describeOverview(map, slowest, answer)).toMatch(
    / Waiting in the queue of a device is 30\.0 ms of the extra 50\.0 ms in the mean\.$/,
  );
  const less = answerOf({ selected: inParts(40, 60n * ms, 0n, 0n), others: inParts(60, 0n, 10n * ms, 0n) });
  expect(describeOverview(map, slowest, less)).toMatch(
    / Waiting in the queue of a device is 60\.0 ms more in the mean\.$/,
  );
});

test('a median, which is not exact, is not beyond what the selection has', () => {
  const box = { ...OPEN_BOX, box_min: 1_000_000n };
  const answer = answerOf({ selected: sideOf(40, 40_000_000n, 995_000n) });
  expect(describeOverview(map, { kind: 'box', box, isFailed: false }, answer)).toContain(
    'they took 1.00 ms in the median',
  );
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
