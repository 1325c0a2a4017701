/** What the page keeps of live events, compared with lists that keep everything. */
import fc from 'fast-check';
import { stringify } from '../../daemon/base/exact_json.ts';
import { createArrivals, createKept, parseEventHead } from '../../daemon/page/live/kept.ts';
import {
  COLUMN_NS,
  createMinute,
  getRowStartNs,
  MINUTE_COLUMNS,
  type Minute,
  ROW_COUNT,
} from '../../daemon/page/live/minute.ts';
import {
  computeColumnsPerCell,
  computeMinuteColumn,
  computeMinuteRow,
  drawMinute,
} from '../../daemon/page/live/minute_picture.ts';
import { createNewest } from '../../daemon/page/live/newest.ts';
import { buildRowTexts } from '../../daemon/page/live/row_cells.ts';
import { sumSeconds } from '../../daemon/page/live/seconds.ts';
import { times } from '../repeats.ts';

const START = 1_763_683_200_123_456_789n;
const MINUTE_NS = 60_000_000_000n;
const int64 = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });

test('the head of an event is what a parser reads, whatever is in its names', () => {
  const name = fc.oneof(
    fc.string(),
    fc.constantFrom('"timestamp_ns":1', '\\"result":-1', '"duration_ns":7,"result":-2'),
  );
  const event = fc.record({
    event_id: name,
    event_type: name,
    timestamp_ns: int64,
    duration_ns: int64,
    service_name: name,
    result: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    file: fc.option(name),
  });
  fc.assert(
    fc.property(event, (one) => {
      const { timestamp_ns: startNs, duration_ns: durationNs, result } = one;
      expect(parseEventHead(stringify(one))).toEqual({ startNs, durationNs, isFailed: result < 0n });
    }),
  );
  for (const text of ['', '{}', '{"timestamp_ns":,"duration_ns":1}', '{"timestamp_ns":1,"duration_ns":-1}'])
    expect(parseEventHead(text)).toBeNull();
  expect(parseEventHead(`{"timestamp_ns":${'9'.repeat(30)},"duration_ns":1}`)).toBeNull();
});

type Step =
  | { kind: 'event'; agoNs: bigint; durationNs: bigint; isFailed: boolean }
  | { kind: 'loss'; agoNs: bigint; lengthNs: bigint }
  | { kind: 'wait'; ns: bigint };

const ago = fc.bigInt({ min: -5_000_000_000n, max: 90_000_000_000n });
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant('event' as const),
      agoNs: fc.oneof(ago, fc.constantFrom(-(2n ** 62n), 2n ** 60n)),
      durationNs: fc.oneof(fc.bigInt({ min: 0n, max: 10n ** 12n }), int64),
      isFailed: fc.boolean(),
    }),
    fc.record({ kind: fc.constant('loss' as const), agoNs: ago, lengthNs: fc.bigInt({ min: 0n, max: MINUTE_NS }) }),
    fc.record({
      kind: fc.constant('wait' as const),
      ns: fc.oneof(fc.bigInt({ min: 0n, max: 10_000_000_000n }), fc.constantFrom(0n, COLUMN_NS, 10n * MINUTE_NS)),
    }),
  ),
  { maxLength: 60 },
);

test('the minute has what began in its columns, however it moves on', () => {
  fc.assert(
    fc.property(steps, (some) => {
      const minute = createMinute(START);
      const events: { column: bigint; durationNs: bigint; isFailed: boolean; isIn: boolean }[] = [];
      const losses: { from: bigint; to: bigint }[] = [];
      let now = START;
      for (const step of some) {
        if (step.kind === 'wait') now += step.ns;
        minute.advance(now);
        const first = now / COLUMN_NS - BigInt(MINUTE_COLUMNS) + 1n;
        if (step.kind === 'event') {
          const startNs = now - step.agoNs;
          if (startNs < 0n) continue;
          const isIn = minute.add(startNs, step.durationNs, step.isFailed);
          const column = startNs / COLUMN_NS;
          expect(isIn).toBe(column >= first && column <= now / COLUMN_NS + 15n);
          events.push({ column, durationNs: step.durationNs, isFailed: step.isFailed, isIn });
        } else if (step.kind === 'loss') {
          const from = now - step.agoNs;
          minute.markLost(from, from + step.lengthNs);
          const last = now / COLUMN_NS + 15n;
          const [a, b] = [from / COLUMN_NS, (from + step.lengthNs) / COLUMN_NS];
          losses.push({ from: a < first ? first : a, to: b > last ? last : b });
        }
      }
      expectMinute(
        minute,
        now,
        events.filter(({ isIn }) => isIn),
        losses,
      );
    }),
    { numRuns: times(60) },
  );
});

function expectMinute(
  minute: Minute,
  now: bigint,
  events: readonly { column: bigint; durationNs: bigint; isFailed: boolean }[],
  losses: readonly { from: bigint; to: bigint }[],
): void {
  const expected = Array.from({ length: MINUTE_COLUMNS }, (_, at) => {
    const column = now / COLUMN_NS - BigInt(MINUTE_COLUMNS - 1 - at);
    const here = events.filter((event) => event.column === column);
    const cells = new Map<number, { count: number; failed: number }>();
    for (const { durationNs, isFailed } of here) {
      let row = 0;
      while (row < ROW_COUNT - 1 && durationNs >= getRowStartNs(row + 1)) row++;
      const { count, failed } = cells.get(row) ?? { count: 0, failed: 0 };
      cells.set(row, { count: count + 1, failed: failed + (isFailed ? 1 : 0) });
    }
    return {
      startNs: column * COLUMN_NS,
      longest: Math.max(-1, ...here.map(({ durationNs }) => Number(durationNs))),
      isLost: losses.some((loss) => loss.from <= column && column <= loss.to),
      cells: [...cells].sort(([a], [b]) => a - b),
    };
  });
  expect(Array.from({ length: MINUTE_COLUMNS }, (_, at) => columnOf(minute, at))).toEqual(expected);
}

function columnOf(minute: Minute, at: number) {
  const from = minute.computePlace(at) * ROW_COUNT;
  const cells: [number, { count: number; failed: number }][] = [];
  for (let row = 0; row < ROW_COUNT; row++) {
    const [count, failed] = [minute.counts[from + row]!, minute.failed[from + row]!];
    if (count + failed > 0) cells.push([row, { count, failed }]);
  }
  return { startNs: minute.computeStartNs(at), longest: minute.getLongestNs(at), isLost: minute.isLost(at), cells };
}

test('the seconds are the columns, added up', () => {
  const minute = createMinute(START);
  for (let i = 0n; i < 300n; i++) minute.add(START - i * 199_999_999n, i * 1000n, i % 7n === 0n);
  minute.markLost(START - 3_000_000_000n, START - 3_000_000_000n);
  const seconds = sumSeconds(minute);
  expect(seconds).toHaveLength(60);
  const first = minute.computeStartNs(0);
  const starts = Array.from({ length: 300 }, (_, i) => START - BigInt(i) * 199_999_999n).filter((ns) => ns >= first);
  expect(seconds.reduce((sum, { count }) => sum + count, 0)).toBe(starts.length);
  for (const { startNs, count, longestNs, isLost } of seconds) {
    const isIn = (ns: bigint) => ns >= startNs && ns < startNs + 1_000_000_000n;
    expect(count).toBe(starts.filter(isIn).length);
    const longest = starts.findLastIndex(isIn);
    expect(longestNs).toBe(longest < 0 ? null : longest * 1000);
    expect(isLost).toBe(isIn(START - 3_000_000_000n));
  }
});

test('losses before the first event are in the minute that its clock begins', () => {
  const second = fc.integer({ min: 0, max: 70 });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(second, second), { maxLength: 8 }),
      fc.constantFrom(0, -30_000, 7 * 86_400_000, 3_000),
      (losses, skewMs) => {
        const kept = createKept();
        const endNs = START - BigInt(skewMs) * 1_000_000n;
        kept.setClock(Number(START / 1_000_000n), 0);
        for (const [agoS, lengthS] of losses) {
          const from = endNs - BigInt(agoS) * 1_000_000_000n;
          const to = from + BigInt(Math.min(lengthS, agoS)) * 1_000_000_000n;
          kept.takeLoss(stringify({ lost: 0, cause: 'ring_full', from, to, node: 'n1' }));
        }
        kept.takeEvent(stringify({ timestamp_ns: endNs - 1n, duration_ns: 1, result: 0 }), 0);
        const minute = kept.minute!;
        for (let column = 0; column < MINUTE_COLUMNS; column++) {
          const [fromNs, toNs] = [minute.computeStartNs(column), minute.computeStartNs(column) + COLUMN_NS];
          const isIn = losses.some(([agoS, lengthS]) => {
            const from = endNs - BigInt(agoS) * 1_000_000_000n;
            return from < toNs && from + BigInt(Math.min(lengthS, agoS)) * 1_000_000_000n >= fromNs;
          });
          expect(minute.isLost(column)).toBe(isIn);
        }
      },
    ),
  );
});

test('one event among millions is seen at every width, and a loss where no event is', () => {
  const [ground, failed, lost] = [1, 2, 3];
  const palette = { ground, counts: Uint32Array.of(10, 11, 12), failed, lost };
  fc.assert(
    fc.property(
      fc.integer({ min: 60, max: 600 }),
      fc.integer({ min: ROW_COUNT, max: 2 * ROW_COUNT }),
      fc.integer({ min: 0, max: MINUTE_COLUMNS - 1 }),
      fc.bigInt({ min: 0n, max: 10n ** 12n }),
      fc.boolean(),
      (width, height, column, durationNs, isFailed) => {
        const minute = createMinute(START);
        const at = minute.computeStartNs(column);
        minute.add(at, durationNs, isFailed);
        const busy = minute.computePlace((column + 17) % MINUTE_COLUMNS) * ROW_COUNT;
        minute.counts[busy] = 4_000_000;
        const pixels = new Uint32Array(width * height);
        drawMinute(minute, palette, pixels, width, height);
        expect(pixels.includes(isFailed ? failed : 10)).toBe(true);
        expect(pixels.includes(0)).toBe(false);
        minute.markLost(at, at);
        drawMinute(minute, palette, pixels, width, height);
        const hatched = Array.from(pixels.keys()).filter((place) => pixels[place] === lost);
        const cell = computeMinuteColumn(hatched[0]! % width, width);
        expect(hatched.every((place) => computeMinuteColumn(place % width, width) === cell)).toBe(true);
        expect(cell <= column && column < cell + computeColumnsPerCell(width)).toBe(true);
      },
    ),
    { numRuns: times(10) },
  );
  expect([computeMinuteRow(0, 288), computeMinuteRow(287, 288), computeMinuteRow(2, 288)]).toEqual([
    ROW_COUNT - 1,
    0,
    ROW_COUNT - 2,
  ]);
});

test('rates are those of whole seconds', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 100_000 }), { maxLength: 200 }),
      fc.integer({ min: 0, max: 30_000 }),
      fc.integer({ min: 0, max: 5000 }),
      (times, laterMs, beganMs) => {
        const arrivals = createArrivals(0, beganMs);
        const inOrder = times.map((time) => beganMs + time).toSorted((a, b) => a - b);
        for (const nowMs of inOrder) arrivals.add(BigInt(nowMs) * 1_000_000n, nowMs);
        const nowMs = (inOrder.at(-1) ?? beganMs) + laterMs;
        const second = Math.floor(nowMs / 1000);
        const countIn = (from: number, to: number) =>
          inOrder.filter((time) => Math.floor(time / 1000) >= from && Math.floor(time / 1000) < to).length;
        expect(arrivals.countLastSecond(nowMs)).toBe(countIn(second - 1, second));
        const elapsed = Math.max(Math.min(second - beganMs / 1000, 60), 1);
        expect(arrivals.computeMinuteRate(nowMs)).toBeCloseTo(countIn(second - 60, second) / elapsed);
      },
    ),
  );
});

test('being behind is what arrives later than it could, whatever the clocks say', () => {
  const epochMs = 1_763_683_200_000;
  const ns = (ms: number) => BigInt(Math.round(ms * 1e6));
  for (const skewMs of [0, -3000, 7 * 86_400_000]) {
    const arrivals = createArrivals(epochMs, 0);
    const arrive = (lagMs: number, nowMs: number) => arrivals.add(ns(epochMs + nowMs - skewMs - lagMs), nowMs);
    expect(arrivals.computeLagMs(0)).toBe(0);
    arrive(200, 1000);
    arrive(230, 1900);
    expect(arrivals.computeLagMs(1900)).toBeCloseTo(0, 0);
    for (let nowMs = 20_000; nowMs < 22_500; nowMs += 100) arrive(12_200, nowMs);
    expect(arrivals.computeLagMs(22_500)).toBeCloseTo(12_000, 0);
    expect(Number(arrivals.computeClockNs(22_500) / 1_000_000n)).toBeCloseTo(epochMs + 22_500 - skewMs - 200, -1);
    // Late events of a machine among others that are on time are no backlog.
    arrive(12_200, 23_000);
    arrive(210, 23_100);
    expect(arrivals.computeLagMs(23_100)).toBeCloseTo(10, 0);
    arrive(9000, 30_000);
    expect(arrivals.computeLagMs(40_000)).toBe(0);
    // A node of a fleet that comes back sends what is marked as late, alone.
    arrivals.add(ns(epochMs + 50_000 - 300_000), 50_000, true);
    expect(arrivals.computeLagMs(50_000)).toBe(0);
    expect(arrivals.countLastSecond(51_000)).toBe(1);
  }
  const arrivals = createArrivals(epochMs, 0);
  arrivals.add(2n ** 63n - 1n, 10);
  arrivals.add(ns(epochMs), 200);
  expect(arrivals.computeLagMs(200)).toBe(0);
});

test('the newest rows are the last ones', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 50 }), fc.integer({ min: 1, max: 20 }), (texts, size) => {
      const newest = createNewest(size);
      for (const text of texts) newest.add('event', text);
      const numbered = texts.map((text, number) => ({ kind: 'event', text, number }));
      expect(newest.rows()).toEqual(numbered.slice(-size).reverse());
      expect(newest.total).toBe(texts.length);
    }),
  );
});

test('a loss that was counted, one that was not, and what the page left out, in words', () => {
  const shown = (name: string) => name.toUpperCase();
  const note = (kind: 'lost' | 'skipped', text: string) => buildRowTexts({ kind, text, number: 0 }, shown).note;
  const loss = { lost: 1, cause: 'ring_full', from: START, to: START + 1n, node: 'n1' };
  expect(note('lost', stringify(loss))).toBe(
    'at least 1 event not recorded on N1, 2025-11-21 00:00:00.123456789 to 2025-11-21 00:00:00.123456790: ' +
      'the agent did not drain the ring buffer in time',
  );
  expect(note('lost', stringify({ ...loss, lost: 0, cause: '__proto__' }))).toMatch(
    /^events not recorded, uncounted, on N1, .*: __PROTO__$/,
  );
  expect(note('skipped', '12.0 s left out')).toBe('12.0 s left out');
});
