/** Pictures of lanes, against what each pixel column should show. */
import fc from 'fast-check';
import { createLanes, type LanesModel } from '../../daemon/model/lanes/model.ts';
import { findFirstFailed, findLongest, type LaneTrack, spread } from '../../daemon/model/lanes/tracks.ts';
import { binTrack, createBins, isInView } from '../../daemon/page/draw/bins.ts';
import { findHitPlace } from '../../daemon/page/draw/hit.ts';
import { labelTexts, placeLabels } from '../../daemon/page/draw/labels.ts';
import { findTrack, layOut } from '../../daemon/page/draw/layout.ts';
import { createStripPainter, ROWS_PER_TRACK } from '../../daemon/page/draw/strips.ts';
import { buildPalette, KINDS, THEMES, toPixel } from '../../daemon/page/draw/theme.ts';
import { computeTicks, drawTickLabels, stepAtLeast } from '../../daemon/page/draw/ticks.ts';
import {
  computeColumnCount,
  computeTimeNs,
  computeXPx,
  fitView,
  panView,
  type View,
  zoomView,
} from '../../daemon/page/draw/view.ts';
import { columnsOf, type MadeEvent } from '../daemon/model/columns/made_columns.ts';
import { times } from '../repeats.ts';

type Bar = readonly [start: number, length: number, isFailed: boolean];

const bars = fc
  .array(fc.tuple(fc.nat(2000), fc.oneof(fc.nat(5), fc.nat(400)), fc.boolean()), { maxLength: 120, size: 'max' })
  .map((some) => some.toSorted(([a, long], [b, other]) => a - b || other - long));
const view = fc
  .tuple(fc.nat(1500), fc.integer({ min: 1, max: 2500 }), fc.integer({ min: 1, max: 60 }), fc.constantFrom(1, 1.5, 2))
  .map(([fromNs, length, widthPx, dpr]): View => ({ fromNs, toNs: fromNs + length, widthPx, dpr }));

function tracksOf(some: readonly Bar[]): LaneTrack[] {
  return spread(
    Uint32Array.from(some, (_, i) => i),
    {
      starts: Float64Array.from(some, ([start]) => start),
      ends: Float64Array.from(some, ([start, length]) => start + length),
      type: new Uint8Array(some.length),
      result: Float64Array.from(some, ([, , isFailed]) => (isFailed ? -5 : 0)),
    },
  );
}

/** The columns of a bar that are in the picture. */
function columnsOfBar([start, length]: Bar, shown: View): number[] {
  const count = computeColumnCount(shown);
  const at = (ns: number) => (ns - shown.fromNs) * (count / (shown.toNs - shown.fromNs));
  if (start >= shown.toNs) return [];
  // A time just before the end of the view may be rounded to it.
  const first = Math.min(Math.floor(at(start)), count - 1);
  const columns: number[] = [];
  const end = at(start + length);
  for (let column = Math.max(first, 0); column < count && (column === first || column < end); column++)
    columns.push(column);
  return columns;
}

test('each column has the number of its events, the longest and the first failed one', () => {
  fc.assert(
    fc.property(bars, view, (some, shown) => {
      for (const track of tracksOf(some)) {
        const bins = createBins(computeColumnCount(shown));
        binTrack(track, shown, bins);
        const inColumn = Array.from({ length: computeColumnCount(shown) }, (): number[] => []);
        for (const [place, row] of track.rows.entries())
          for (const column of columnsOfBar(some[row]!, shown)) inColumn[column]!.push(place);
        const length = (place: number) => some[track.rows[place]!]![1];
        const longest = (places: number[]) =>
          places.reduce((best, place) => (best < 0 || length(place) > length(best) ? place : best), -1);
        expect([...bins.counts]).toEqual(inColumn.map((places) => places.length));
        expect([...bins.longest]).toEqual(inColumn.map(longest));
        expect([...bins.worst]).toEqual(
          inColumn.map((places) => places.find((place) => some[track.rows[place]!]![2]) ?? -1),
        );
        if (bins.counts.some((count) => count > 0)) expect(isInView(track, shown)).toBe(true);
      }
    }),
    { numRuns: times(500) },
  );
});

test('the longest and the first failed event of any range are found', () => {
  const lengths = fc.array(fc.tuple(fc.nat(20), fc.boolean()), { minLength: 1, maxLength: 700, size: 'max' });
  fc.assert(
    fc.property(lengths, fc.nat(700), fc.nat(700), (some, a, b) => {
      const [track] = tracksOf(some.map(([length, isFailed], i) => [i * 30, length, isFailed]));
      const [from, to] = [Math.min(a, b, some.length), Math.min(Math.max(a, b), some.length)];
      const range = some.slice(from, to);
      const longest = range.findIndex(([length]) => length === Math.max(...range.map(([other]) => other)));
      expect(findLongest(track!, from, to)).toBe(longest < 0 ? -1 : from + longest);
      const failed = range.findIndex(([, isFailed]) => isFailed);
      expect(findFirstFailed(track!, from, to)).toBe(failed < 0 ? -1 : from + failed);
    }),
    { numRuns: times(100) },
  );
});

test('the event under the pointer is the smallest, else the nearest; a narrow failed one comes first', () => {
  fc.assert(
    fc.property(bars, view, fc.double({ min: 0, max: 0.999, noNaN: true }), fc.nat(4), (some, shown, at, tolerance) => {
      const xPx = at * shown.widthPx;
      const column = Math.floor(xPx * shown.dpr);
      const reach = Math.ceil(tolerance * shown.dpr);
      const scale = computeColumnCount(shown) / (shown.toNs - shown.fromNs);
      for (const track of tracksOf(some)) {
        const candidates = [...track.rows].flatMap((row, place) => {
          const [start, length, isFailed] = some[row]!;
          const visible = columnsOfBar(some[row]!, shown);
          if (visible.length === 0) return [];
          const distance = Math.min(...visible.map((one) => Math.abs(one - column)));
          const first = Math.min(Math.floor((start - shown.fromNs) * scale), computeColumnCount(shown) - 1);
          const last = Math.max(first, Math.ceil((start + length - shown.fromNs) * scale) - 1);
          return distance > reach
            ? []
            : [{ place, key: [isFailed && last - first < 3 ? 0 : 1, distance, length, place] }];
        });
        candidates.sort((a, b) => a.key.map((value, i) => value - b.key[i]!).find((value) => value !== 0) ?? 0);
        expect(findHitPlace(track, shown, xPx, tolerance)).toBe(candidates[0]?.place ?? -1);
      }
    }),
    { numRuns: times(200) },
  );
});

function modelOf(events: readonly Partial<MadeEvent>[]): LanesModel {
  return createLanes(columnsOf(events), { transactions: new Set(['order-1']) });
}

const SIZES = { headerPx: 20, trackPx: 16, gapPx: 4, thinPx: 2 };

/** Hex colours of the strips, without the empty columns at the ends; `.` is an empty one. */
function strips(model: LanesModel, shown: View): string[][] {
  const { tracks } = layOut(model, [shown], SIZES);
  const columns = computeColumnCount(shown);
  const pixels = new Uint32Array(columns * ROWS_PER_TRACK * tracks.length).fill(0x12345678);
  const palette = buildPalette('light');
  createStripPainter(model).paint(tracks, shown, palette, pixels);
  const kindOf = new Map(Object.entries(KINDS).map(([kind, at]) => [palette[at]!, kind]));
  kindOf.set(palette[KINDS.neutral]!, 'grey').set(0, '.');
  return Array.from({ length: ROWS_PER_TRACK * tracks.length }, (_, row) =>
    Array.from(pixels.subarray(row * columns, (row + 1) * columns), (pixel) => kindOf.get(pixel) ?? String(pixel)),
  );
}

test('colours say what time was spent on: calls by type, own requests by queue and service, others in grey', () => {
  const model = modelOf([
    { type: 'sys_write', start: 0, duration: 20 },
    { type: 'sys_sync', start: 30, duration: 60, result: -28 },
    { type: 'block_io', start: 40, duration: 45, queue: 33 },
    { type: 'block_io', start: 0, duration: 50, transaction: null },
  ]);
  expect(strips(model, { fromNs: 0, toNs: 100, widthPx: 10, dpr: 1 })).toEqual([
    ['write', 'write', '.', ...Array(6).fill('sync'), '.'],
    ['.', '.', ...Array(8).fill('error')],
    [...Array(4).fill('.'), 'queue', 'queue', 'queue', 'service', 'service', '.'],
    Array(10).fill('.'),
    [...Array(5).fill('grey'), ...Array(5).fill('.')],
    Array(10).fill('.'),
  ]);
});

test('a type that is not known here has the neutral colour and its name', () => {
  const columns = columnsOf([{ duration: 100 }]);
  columns.types.set(1, 'sys_rename');
  columns.whats[0]!.operation = '';
  const model = createLanes(columns, { transactions: null });
  expect(strips(model, { fromNs: 0, toNs: 100, widthPx: 2, dpr: 1 })[0]).toEqual(['grey', 'grey']);
  expect(labelTexts(model, model.groups[0]!.lanes[0]!, 0)).toEqual(['sys_rename 100 ns', 'sys_rename']);
});

test('one failed event of 50 ns among a million is seen at every zoom', () => {
  const count = 1_000_000;
  const one = columnsOf([{ duration: 50, result: -28 }]);
  const columns = {
    ...one,
    ...{ count, start: new Float64Array(count), duration: new Float64Array(count), result: new Float64Array(count) },
    ...{ type: new Uint8Array(count).fill(1), thread: new Uint32Array(count), what: new Uint32Array(count) },
    ...{ owner: new Uint32Array(count), queue: new Float64Array(count) },
  };
  const failed = 617_283;
  for (let row = 0; row < count; row++) {
    columns.start[row] = row * 1000;
    columns.duration[row] = row === failed ? 50 : 900;
  }
  columns.result[failed] = -28;
  const model = createLanes(columns, { transactions: null });
  const { fromNs, toNs } = model.ownSpan!;
  const bounds = { fromNs, toNs };
  let shown: View = { ...bounds, widthPx: 1280, dpr: 1 };
  for (let zoom = 0; ; zoom++) {
    const marks = strips(model, shown)[1]!;
    expect(marks.filter((kind) => kind === 'error').length).toBeGreaterThanOrEqual(3);
    const [track] = model.groups[0]!.lanes[0]!.tracks;
    expect(findHitPlace(track!, shown, computeXPx(shown, failed * 1000 + 25))).toBe(failed);
    if (shown.toNs - shown.fromNs === 2000) break;
    shown = zoomView(shown, 0.37, computeXPx(shown, failed * 1000 + 25), bounds);
    expect(zoom).toBeLessThan(40);
  }
});

test('labels are only where they fit, within the picture, and not more than asked for', () => {
  const texts = (row: number) => [`a long text ${row}`, `${row}`];
  const measure = (text: string) => text.length * 6;
  fc.assert(
    fc.property(bars, view, fc.nat(3), (some, shown, most) => {
      const wide = { ...shown, widthPx: shown.widthPx * 20 };
      for (const track of tracksOf(some)) {
        const bins = createBins(computeColumnCount(wide));
        binTrack(track, wide, bins);
        const labels = placeLabels(track, bins, wide, texts, measure, most);
        expect(labels.length).toBeLessThanOrEqual(most);
        for (const { xPx, widthPx, text, row } of labels) {
          expect(measure(text)).toBeLessThanOrEqual(widthPx);
          const shownColumns = columnsOfBar(some[row]!, wide);
          expect(xPx * wide.dpr).toBeGreaterThanOrEqual(shownColumns[0]!);
          expect((xPx + widthPx) * wide.dpr).toBeLessThanOrEqual(shownColumns.at(-1)! + 1.001);
          expect(text === texts(row)[0] || measure(texts(row)[0]!) > widthPx).toBe(true);
        }
      }
    }),
  );
});

test('every bar with room for its text has a label', () => {
  fc.assert(
    fc.property(bars, view, (some, shown) => {
      const wide = { ...shown, widthPx: shown.widthPx * 20 };
      for (const track of tracksOf(some)) {
        const bins = createBins(computeColumnCount(wide));
        binTrack(track, wide, bins);
        const runs = [...bins.longest].flatMap((place, from) => {
          if (place < 0 || bins.longest[from - 1] === place) return [];
          const end = bins.longest.findIndex((other, column) => column > from && other !== place);
          const columns = (end < 0 ? bins.longest.length : end) - from;
          return [{ from, roomPx: columns / wide.dpr - 8 }];
        });
        const placed = placeLabels(
          track,
          bins,
          wide,
          () => ['text'],
          () => 24,
        );
        expect(placed.map(({ xPx, widthPx }) => [xPx, widthPx])).toEqual(
          runs.filter(({ roomPx }) => roomPx >= 24).map(({ from, roomPx }) => [from / wide.dpr + 4, roomPx]),
        );
      }
    }),
  );
});

test('labels name calls, waits, and the owners of what was in the way', () => {
  const model = modelOf([
    { type: 'sys_sync', duration: 31_302_187 },
    { type: 'block_io', start: 1, duration: 31_000_000, queue: 30_100_000 },
    { type: 'block_io', start: 2, transaction: null, service: 'backup', bytes: 1_048_576 },
  ]);
  const textsIn = (one: LanesModel) =>
    one.groups.flatMap(({ lanes }) => lanes.map((lane) => labelTexts(one, lane, lane.tracks[0]!.rows[0]!)));
  expect(textsIn(model)).toEqual([
    ['fsync 31.3 ms', 'fsync'],
    ['queued 30.1 ms', '31.0 ms'],
    ['backup 1 MiB', 'backup'],
  ]);
  // The device worked for most of the time.
  const served = modelOf([{ type: 'block_io', duration: 31_000_000, queue: 15_400_000 }]);
  expect(textsIn(served)).toEqual([['31.0 ms']]);
});

test('lanes without an event in view are thin lines in their place, and tracks are found by their height', () => {
  const model = modelOf([
    { start: 0, tid: 8 },
    { start: 500, tid: 9 },
    { start: 505, tid: 9 },
    { start: 900, tid: 10 },
  ]);
  const shown = { fromNs: 400, toNs: 600, widthPx: 100, dpr: 1 };
  const layout = layOut(model, [shown], SIZES);
  const places = (some: typeof layout.lanes) => some.map(({ lane, topPx, heightPx }) => [lane.tid, topPx, heightPx]);
  expect(layout.groups.map(({ foldedCount, topPx }) => [foldedCount, topPx])).toEqual([[2, 0]]);
  expect(places(layout.thin)).toEqual([
    [8, 20, 2],
    [10, 58, 2],
  ]);
  expect(places(layout.lanes)).toEqual([[9, 22, 32]]);
  expect([21, 22, 37, 38, 53, 54, 59].map((yPx) => findTrack(layout, yPx))).toEqual([-1, 0, 0, 1, 1, -1, -1]);
  expect(layout.heightPx).toBe(60);
  const kept = new Set(model.groups[0]!.lanes.slice(0, 1).map(({ key }) => key));
  const tids = ({ lanes }: typeof layout) => lanes.map(({ lane }) => lane.tid);
  expect(tids(layOut(model, [shown], SIZES, { kept }))).toEqual([8, 9]);
  expect(tids(layOut(model, [shown, { fromNs: 800, toNs: 1000 }], SIZES))).toEqual([9, 10]);
  expect(tids(layOut(model, [shown], SIZES, { all: true }))).toEqual([8, 9, 10]);
});

test('ticks are at multiples of a round step, exact, apart from each other, and none is missing', () => {
  const start = fc.oneof(
    fc.nat(5_000_000),
    fc.maxSafeNat().map((ns) => Math.floor(ns / 2)),
  );
  const length = fc.oneof(fc.integer({ min: 2000, max: 100_000 }), fc.integer({ min: 2000, max: 10 ** 15 }));
  fc.assert(
    fc.property(start, length, fc.integer({ min: 300, max: 3000 }), fc.nat(1000), (fromNs, ns, widthPx, originNs) => {
      const shown = { fromNs, toNs: fromNs + ns, widthPx, dpr: 1 };
      const ticks = computeTicks(shown, originNs);
      const labels = ticks.map(({ label }) => label);
      expect(new Set(labels).size).toBe(labels.length);
      for (const [i, { ns: at, label }] of ticks.entries()) {
        const [, whole, fraction = '', unit] = /^(-?\d+)(?:\.(\d+))? (ns|µs|ms|s)$/.exec(label)!;
        const places = { ns: 0, µs: 3, ms: 6, s: 9 }[unit as 'ns' | 'µs' | 'ms' | 's'];
        const digits = BigInt(`${whole}${fraction.padEnd(places, '0')}`);
        expect(label.startsWith('-') && digits > 0n ? -digits : digits).toBe(BigInt(at));
        if (i === 0) continue;
        const step = at - ticks[i - 1]!.ns;
        expect(String(step)).toMatch(/^[125]0*$/);
        expect((step / ns) * widthPx).toBeGreaterThanOrEqual(Math.max(79.99, label.length * 8));
      }
      const [one, other] = ticks;
      if (!other) return;
      expect(one!.ns + originNs - (other.ns - one!.ns)).toBeLessThan(fromNs);
      expect(ticks.at(-1)!.ns + originNs + (other.ns - one!.ns)).toBeGreaterThan(shown.toNs);
    }),
    { numRuns: times(100) },
  );
  expect([0.2, 1, 1.5, 3, 7, 10, 11, 2e9].map(stepAtLeast)).toEqual([1, 1, 2, 5, 10, 10, 20, 2e9]);
});

test('ticks of a transaction and of a deep zoom', () => {
  const shown = { fromNs: 0, toNs: 100e6, widthPx: 500, dpr: 1 };
  expect(computeTicks(shown).map(({ label }) => label)).toEqual(['0 ms', '20 ms', '40 ms', '60 ms', '80 ms', '100 ms']);
  const deep = { fromNs: 85_495_000, toNs: 85_497_000, widthPx: 400, dpr: 1 };
  const labels = ['85.4950 ms', '85.4955 ms', '85.4960 ms', '85.4965 ms', '85.4970 ms'];
  expect(computeTicks(deep).map(({ label }) => label)).toEqual(labels);
});

test('zoom keeps the time under the pointer, pan and zoom stay within the bounds', () => {
  const bounds = { fromNs: 1000, toNs: 10_001_000 };
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.double({ min: 0.2, max: 5, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }))),
      (moves) => {
        let shown: View = { ...bounds, widthPx: 1000, dpr: 2 };
        for (const [factor, at] of moves) {
          const before = computeTimeNs(shown, at * 1000);
          const next = zoomView(shown, factor, at * 1000, bounds);
          const isFree = next.fromNs > bounds.fromNs && next.toNs < bounds.toNs;
          if (isFree) expect(Math.abs(computeTimeNs(next, at * 1000) - before)).toBeLessThanOrEqual(2);
          shown = panView(next, at - 0.5, bounds);
          expect(shown.toNs - shown.fromNs).toBe(next.toNs - next.fromNs);
          expect(shown.toNs - shown.fromNs).toBeGreaterThanOrEqual(2000);
          expect([shown.fromNs >= bounds.fromNs, shown.toNs <= bounds.toNs]).toEqual([true, true]);
        }
      },
    ),
  );
  const shown = { ...bounds, widthPx: 1000, dpr: 1 };
  expect(fitView(shown, { fromNs: 5000, toNs: 5100 })).toMatchObject({ fromNs: 4050, toNs: 6050 });
  expect(fitView(shown, { fromNs: 0, toNs: 100_000 }, 0.05)).toMatchObject({ fromNs: -5000, toNs: 105_000 });
});

test('marks can be distinguished from the ground in both themes, but for what is neutral', () => {
  const luminance = (hex: string) => {
    const [red, green, blue] = [0, 2, 4].map((at) => {
      const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  };
  for (const [theme, ground] of [
    ['light', 'ffffff'],
    ['dark', '12171e'],
  ] as const)
    for (const [kind, colour] of Object.entries(THEMES[theme])) {
      const [one, other] = [luminance(colour), luminance(ground)].sort((a, b) => b - a);
      if (kind !== 'neutral' && kind !== 'other') expect((one! + 0.05) / (other! + 0.05)).toBeGreaterThanOrEqual(3);
    }
});

test('pixels are in the order of image data', () => {
  expect([...new Uint8Array(Uint32Array.of(toPixel('b34700')).buffer)]).toEqual([0xb3, 0x47, 0, 255]);
});

/** A context that measures 7 px for each character, and notes where a label begins. */
function noteLabels() {
  const drawn: { label: string; fromPx: number; toPx: number }[] = [];
  const measureText = (text: string) => ({ width: 7 * text.length }) as TextMetrics;
  const fillText = (label: string, fromPx: number) =>
    void drawn.push({ label, fromPx, toPx: fromPx + 7 * label.length });
  return { context: { measureText, fillText }, drawn };
}

test('the label of a tick at the end of an axis ends there, and overlaps none', () => {
  const { context, drawn } = noteLabels();
  const ticks = [0, 500, 960, 995].map((xPx, at) => ({ xPx, label: `${at}0 ms` }));
  drawTickLabels(context, ticks, 150, 1000, 11);
  expect(drawn).toEqual([
    { label: '30 ms', fromPx: 1115, toPx: 1150 },
    { label: '10 ms', fromPx: 653, toPx: 688 },
    { label: '00 ms', fromPx: 153, toPx: 188 },
  ]);
});

test('labels of any view lie on their axis, and apart', () => {
  fc.assert(
    fc.property(
      fc.nat(1e9),
      fc.integer({ min: 10, max: 2e9 }),
      fc.integer({ min: 200, max: 2000 }),
      (from, length, widthPx) => {
        const { context, drawn } = noteLabels();
        const ticks = computeTicks({ fromNs: from, toNs: from + length, widthPx, dpr: 1 });
        drawTickLabels(context, ticks, 84, widthPx, 11);
        const sorted = drawn.toSorted((a, b) => a.fromPx - b.fromPx);
        expect(ticks.length - drawn.length).toBeLessThanOrEqual(1);
        for (const [at, { fromPx, toPx }] of sorted.entries()) {
          expect(fromPx).toBeGreaterThanOrEqual(84);
          expect(toPx).toBeLessThanOrEqual(at + 1 < sorted.length ? sorted[at + 1]!.fromPx : 84 + widthPx);
        }
      },
    ),
  );
});
