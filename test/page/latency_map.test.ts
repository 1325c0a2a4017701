/** The map of latencies without a browser: where things lie, what is painted, and what a box has. */
import fc from 'fast-check';
import { ROW_EDGES } from '../../daemon/model/duration_rows.ts';
import { THEMES, toPixel } from '../../daemon/page/draw/theme.ts';
import {
  type CellBox,
  computeBox,
  computeCellBox,
  computeCoveredCells,
  moveBox,
  resizeBox,
  roundBox,
  sumCellsInBox,
} from '../../daemon/page/map/box.ts';
import { computeClockTicks } from '../../daemon/page/map/clock_ticks.ts';
import {
  computeCellPixels,
  computeShade,
  computeShades,
  paintCells,
  SHADE_COUNT,
} from '../../daemon/page/map/paint.ts';
import {
  computeBandPlace,
  computeColumnPlace,
  computeColumnStartNs,
  computeDurationMarks,
  computeMapScale,
  getBandStartNs,
  type MapScale,
  mergeCells,
} from '../../daemon/page/map/scale.ts';
import { computeExactTail, narrowTail, tailOfCells, tailSize } from '../../daemon/page/map/tail.ts';
import { BASE, mapAnswer, timedAll } from './made_map.ts';

const map = timedAll.map((all) => {
  const answer = mapAnswer(all);
  const scale = computeMapScale(answer);
  return { all, answer, scale, cells: mergeCells(answer, scale) };
});

const share = fc.double({ min: 0, max: 1, noNaN: true });
const shares = fc.tuple(share, share, share, share);
type Shares = [number, number, number, number];

function someCells({ columnCount, bandCount }: MapScale, [a, b, c, d]: Shares): CellBox {
  const scale = { columnCount, bandCount } as MapScale;
  return computeCoveredCells(
    scale,
    { column: a * columnCount, band: b * bandCount },
    { column: c * columnCount, band: d * bandCount },
  );
}

test('each one is in the column and the band of its time and duration, and none is lost', () => {
  fc.assert(
    fc.property(map, ({ all, scale, cells }) => {
      for (const { at, durationNs } of all) {
        const [column, band] = [
          Math.floor(computeColumnPlace(scale, at)),
          Math.floor(computeBandPlace(scale, durationNs)),
        ];
        expect(computeColumnStartNs(scale, column) <= at && at < computeColumnStartNs(scale, column + 1)).toBe(true);
        expect(getBandStartNs(scale, band) <= durationNs && durationNs < getBandStartNs(scale, band + 1)).toBe(true);
        expect(cells.some((cell) => cell.column === column && cell.band === band)).toBe(true);
      }
      expect(cells.reduce((sum, { count }) => sum + count, 0)).toBe(all.length);
      expect(scale.bandCount).toBeLessThanOrEqual(64);
      expect(cells.every(({ band }) => band >= 0 && band < scale.bandCount)).toBe(true);
    }),
  );
});

test('a box of cells has exactly the ones within its times and durations, also as the link has it', () => {
  fc.assert(
    fc.property(map, shares, ({ all, scale, cells }, places) => {
      const own = someCells(scale, places);
      const { box_from, box_to, box_min, box_max } = computeBox(scale, own);
      const within = all.filter(
        ({ at, durationNs }) =>
          at >= box_from! && at < box_to! && durationNs >= box_min! && (box_max === null || durationNs <= box_max),
      );
      const failed = within.filter((one) => one.failed).length;
      expect(sumCellsInBox(cells, own)).toEqual({ count: within.length, failed });
      const drawn = computeCellBox(scale, { box_from, box_to, box_min, box_max })!;
      if (box_min! >= 100n) expect(drawn).toEqual(own);
      expect(roundBox(scale, drawn).left).toBe(own.left);
    }),
  );
});

test('a box that keys move keeps its size, and stays on the map; one that they resize keeps a cell', () => {
  const step = fc.integer({ min: -100, max: 100 });
  fc.assert(
    fc.property(map, shares, step, step, ({ scale }, places, columns, bands) => {
      const own = someCells(scale, places);
      const isOnMap = ({ left, right, bottom, top }: CellBox) =>
        left >= 0 &&
        right <= scale.columnCount &&
        bottom >= 0 &&
        top <= scale.bandCount &&
        left < right &&
        bottom < top;
      const after = moveBox(scale, own, columns, bands);
      expect([after.right - after.left, after.top - after.bottom]).toEqual([
        own.right - own.left,
        own.top - own.bottom,
      ]);
      expect(isOnMap(after)).toBe(true);
      const wanted = { ...own, left: own.left + columns, right: own.right + columns };
      if (isOnMap(wanted)) expect(moveBox(scale, own, columns, 0)).toEqual(wanted);
      const larger = resizeBox(scale, own, columns, bands);
      expect(isOnMap(larger)).toBe(true);
      expect([larger.left, larger.bottom]).toEqual([own.left, own.bottom]);
      const asked = { ...own, right: own.right + columns };
      if (isOnMap(asked)) expect(resizeBox(scale, own, columns, 0)).toEqual(asked);
    }),
  );
});

test('a box outside the map is not drawn, and an open one is all of it', () => {
  fc.assert(
    fc.property(map, ({ scale }) => {
      const open = { box_from: null, box_to: null, box_min: null, box_max: null };
      const { columnCount, bandCount } = scale;
      expect(computeCellBox(scale, open)).toEqual({ left: 0, right: columnCount, bottom: 0, top: bandCount });
      expect(computeCellBox(scale, { ...open, box_from: computeColumnStartNs(scale, columnCount) })).toBeNull();
      expect(computeCellBox(scale, { ...open, box_to: scale.fromNs })).toBeNull();
    }),
  );
});

test('each pixel has the shade of the most frequent cell there, and failures are above all', () => {
  const size = fc.record({ width: fc.integer({ min: 40, max: 260 }), height: fc.integer({ min: 64, max: 200 }) });
  fc.assert(
    fc.property(map, size, fc.boolean(), ({ cells, scale }, size, isFailedOnly) => {
      const pixels = paintCells(cells, scale, size, { theme: 'light', ink: 'rest', isFailedOnly });
      const shades = computeShades('light', 'rest').map((hex) => toPixel(hex));
      const error = toPixel(THEMES.light.error);
      const most = Math.max(...cells.map(({ count }) => count));
      const weight = (cell: (typeof cells)[number]) => (isFailedOnly ? cell.failed : cell.count);
      const placed = cells
        .filter((cell) => weight(cell) > 0)
        .map((cell) => ({ cell, at: computeCellPixels(scale, cell, size) }));
      const wrong: unknown[] = [];
      for (let y = 0; y < size.height; y += 3)
        for (let x = 0; x < size.width; x++) {
          const here = placed.filter(({ at }) => x >= at.left && x < at.right && y >= at.top && y < at.bottom);
          const pixel = pixels[y * size.width + x]!;
          const isFailure = pixel === error && here.some(({ cell }) => cell.failed > 0);
          const shade = shades[computeShade(Math.max(...here.map(({ cell }) => weight(cell))), most)];
          if (!isFailure && pixel !== (here.length === 0 ? 0 : shade)) wrong.push({ x, y, pixel, here });
        }
      expect(wrong).toEqual([]);
      for (const { cell, at } of placed) {
        const own = Array.from(
          { length: at.bottom - at.top },
          (_, row) => pixels[(at.top + row) * size.width + at.left],
        );
        expect(own.every((pixel) => pixel !== 0)).toBe(true);
        if (cell.failed > 0) expect(own).toContain(error);
      }
    }),
    { numRuns: 40 },
  );
});

test('every shade stands out from the ground, and a larger count never has a weaker one', () => {
  const luminance = (hex: string) =>
    [0, 2, 4]
      .map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at]!, 0);
  const contrast = (a: string, b: string) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
    return (high + 0.05) / (low + 0.05);
  };
  for (const [theme, ground] of [
    ['light', 'f4f6f8'],
    ['dark', '1a212a'],
  ] as const)
    for (const ink of ['rest', 'selection'] as const) {
      const contrasts = computeShades(theme, ink).map((hex) => contrast(hex, ground));
      expect(Math.min(...contrasts)).toBeGreaterThanOrEqual(3);
      expect(contrasts.toSorted((a, b) => a - b)).toEqual(contrasts);
    }
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 1, max: 1e9 }), (a, b) => {
      const [low, high] = [Math.min(a, b), Math.max(a, b)];
      expect(computeShade(low, high)).toBeLessThanOrEqual(computeShade(high, high));
      expect([computeShade(1, high), computeShade(high, high)]).toEqual([0, high === 1 ? 0 : SHADE_COUNT - 1]);
    }),
  );
});

test('the tail has about 2 %, and no less than 30', () => {
  expect([0, 59, 60, 1000, 1500, 1501, 31_740].map(tailSize)).toEqual([0, 0, 30, 30, 30, 31, 635]);
  const durations = fc.array(fc.bigInt({ min: 1n, max: 200n }), { minLength: 60, maxLength: 400 });
  fc.assert(
    fc.property(durations, (given) => {
      const all = given.map((durationNs) => durationNs * 7n);
      const size = tailSize(all.length);
      const slowest = all.toSorted((a, b) => Number(b - a)).map((duration_ns) => ({ duration_ns }));
      const least = computeExactTail(slowest.slice(0, size + 1), size);
      const count = (ns: bigint) => all.filter((one) => one >= ns).length;
      // The nearest of the durations that leave 30, from below if there is a choice.
      const exact = slowest[size - 1]!.duration_ns;
      if (count(exact) === size) expect(least).toBe(exact);
      else expect(count(least) >= 30 && (count(least) < size || least === exact)).toBe(true);
    }),
  );
});

test('the tail of a map is at the row whose count is nearest', () => {
  fc.assert(
    fc.property(
      fc.array(fc.bigInt({ min: 100n, max: 10_000_000n }), { minLength: 60, maxLength: 300 }),
      (durations) => {
        const answer = mapAnswer(
          durations.map((durationNs, at) => ({
            at: BigInt(at) + 1_763_683_200_000_000_001n,
            durationNs,
            failed: false,
          })),
        );
        const size = tailSize(durations.length);
        const counts = ROW_EDGES.map((edge) => ({ edge, count: durations.filter((one) => one >= edge).length }));
        const enough = counts.filter(({ count }) => count >= 30);
        const nearest = Math.min(...enough.map(({ count }) => Math.abs(count - size)));
        const found = tailOfCells(answer, size);
        const own = durations.filter((one) => one >= found).length;
        expect([own >= 30, Math.abs(own - size)]).toEqual([true, nearest]);
      },
    ),
  );
});

test('a tail that is longer than a list is narrowed by counting to little more than its size', async () => {
  const durations = fc.array(fc.bigInt({ min: 100n, max: 1_000_000_000n }), { minLength: 60, maxLength: 300 });
  await fc.assert(
    fc.asyncProperty(durations, fc.integer({ min: 1, max: 60 }), async (all, size) => {
      const answer = mapAnswer(all.map((durationNs) => ({ at: BASE, durationNs, failed: false })));
      const count = (ns: bigint) => all.filter((one) => one >= ns).length;
      const least = await narrowTail(answer, size, async (ns) => count(ns));
      const ofRow = ROW_EDGES.findLastIndex((edge) => count(edge) >= size);
      const [from, to] = [ROW_EDGES[ofRow]!, ROW_EDGES[ofRow + 1]!];
      expect(least >= from && least < to && count(least) >= size).toBe(true);
      // What is still too many lies within a 1024th of the row.
      expect(count(least + (to - from) / 1024n + 1n) <= size * 1.01).toBe(true);
    }),
  );
});

test('ticks of the clock are round, different, in the map, and not too many', () => {
  const lengthNs = fc.oneof(fc.bigInt({ min: 1n, max: 10n ** 10n }), fc.bigInt({ min: 10n ** 9n, max: 10n ** 16n }));
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: 4n * 10n ** 18n }),
      lengthNs,
      fc.integer({ min: 1, max: 14 }),
      (from, length, most) => {
        const ticks = computeClockTicks(from, from + length, most);
        expect(ticks.length).toBeLessThanOrEqual(most + 1);
        for (const { ns } of ticks) expect(ns >= from && ns < from + length).toBe(true);
        const [first, second] = ticks;
        if (first && second) {
          const step = second.ns - first.ns;
          expect(ticks.every(({ ns }) => ns % step === 0n)).toBe(true);
          if (length < 86_400_000_000_000n) expect(new Set(ticks.map(({ label }) => label)).size).toBe(ticks.length);
        }
      },
    ),
  );
  const at = 1_763_683_200_000_000_000n;
  expect(computeClockTicks(at, at + 600_000_000_000n, 5).map(({ label }) => label)).toEqual([
    '00:00',
    '00:02',
    '00:04',
    '00:06',
    '00:08',
  ]);
  expect(computeClockTicks(at, at + 5_000_000n, 2).map(({ label }) => label)).toEqual(['00:00:00.000']);
});

test('marks of durations are powers of ten, on the map', () => {
  const scale = computeMapScale(
    mapAnswer([{ at: 1_763_683_200_000_000_001n, durationNs: 31_302_187n, failed: false }]),
  );
  expect(computeDurationMarks(scale).map(({ label }) => label)).toEqual(['10 ms', '100 ms']);
  fc.assert(
    fc.property(map, ({ scale }) => {
      for (const { label, band } of computeDurationMarks(scale)) {
        const [digits, unit] = label.split(' ') as [string, string];
        const ns = BigInt(digits) * { ns: 1n, µs: 1_000n, ms: 1_000_000n, s: 1_000_000_000n }[unit]!;
        expect(computeBandPlace(scale, ns)).toBe(band);
      }
    }),
  );
});
