/** Bars below the lanes that show where events would be with a latency, against what each pixel column should show. */
import fc from 'fast-check';
import { createLanes, type LanesModel } from '../../daemon/model/lanes/model.ts';
import { computeExtents } from '../../daemon/page/draw/extents.ts';
import { layOut } from '../../daemon/page/draw/layout.ts';
import { paintProjected } from '../../daemon/page/draw/projected.ts';
import { buildPalette, KINDS } from '../../daemon/page/draw/theme.ts';
import { computeColumnCount, type View } from '../../daemon/page/draw/view.ts';
import { type ChosenLatency, projectTimes } from '../../daemon/page/replay/schedule.ts';
import { columnsOf, type MadeEvent } from '../daemon/model/columns/made_columns.ts';

const SIZES = { headerPx: 20, trackPx: 16, gapPx: 4, thinPx: 2 };

const bars = fc
  .array(fc.tuple(fc.nat(2000), fc.oneof(fc.nat(5), fc.nat(400))), { minLength: 1, maxLength: 120, size: 'max' })
  .map((some) => some.toSorted(([a, long], [b, other]) => a - b || other - long));
const view = fc
  .tuple(fc.nat(1500), fc.integer({ min: 1, max: 2500 }), fc.integer({ min: 1, max: 60 }))
  .map(([fromNs, length, widthPx]): View => ({ fromNs, toNs: fromNs + length, widthPx, dpr: 1 }));

function modelOf(events: readonly Partial<MadeEvent>[]): LanesModel {
  return createLanes(columnsOf(events), { transactions: new Set(['order-1']) });
}

/** Colours of the strip of projected events of each track, with a latency. */
function projectedStrips(model: LanesModel, shown: View, latency: ChosenLatency): string[][] {
  const times = projectTimes(model, latency);
  const { tracks } = layOut(model, [shown], SIZES, { times });
  const columns = computeColumnCount(shown);
  const pixels = new Uint32Array(columns * tracks.length);
  const palette = buildPalette('light');
  paintProjected(tracks, model, times, shown, palette, pixels);
  const kindOf = new Map([
    [palette[KINDS.added]!, 'added'],
    [palette[KINDS.neutral]!, 'grey'],
    [0, '.'],
  ] as const);
  return tracks.map((_, at) =>
    Array.from(pixels.subarray(at * columns, (at + 1) * columns), (one) => kindOf.get(one)!),
  );
}

test('what a latency adds is after each event that gets it, and later ones of its thread begin later', () => {
  const model = modelOf([
    { type: 'sys_write', start: 0, duration: 10 },
    { type: 'sys_sync', start: 20, duration: 20 },
    { type: 'sys_write', start: 50, duration: 10 },
    { type: 'block_io', start: 0, duration: 90, transaction: null },
  ]);
  const shown = { fromNs: 0, toNs: 100, widthPx: 10, dpr: 1 };
  expect(projectedStrips(model, shown, { latencyNs: 20, only: { event_type: ['sys_sync'] } })).toEqual([
    ['grey', '.', 'grey', 'grey', 'added', 'added', '.', 'grey', '.', '.'],
    Array(10).fill('.'),
  ]);
  // The second one ends after the picture: only the part in view is painted.
  expect(projectedStrips(model, shown, { latencyNs: 70, only: {} })[0]).toEqual([
    ...['grey', ...Array(7).fill('added'), '.', 'grey'],
  ]);
});

test('a lane whose events would be moved into view is not folded', () => {
  const model = modelOf([
    { start: 0, duration: 0 },
    { start: 1470, duration: 0 },
  ]);
  const shown = { fromNs: 1471, toNs: 1474, widthPx: 3, dpr: 1 };
  expect(projectedStrips(model, shown, { latencyNs: 1, only: {} })).toEqual([['added', '.', '.']]);
  expect(layOut(model, [shown], SIZES).tracks).toEqual([]);
});

test('a picture is as long as what would take longer, and at most four times as long as what is recorded', () => {
  const model = modelOf([{ type: 'sys_write', start: 0, duration: 1_000_000 }]);
  const lengthOf = (laterNs?: number) => {
    const { fromNs, toNs } = computeExtents(model, laterNs).normal;
    return toNs - fromNs;
  };
  expect([lengthOf(), lengthOf(500_000)]).toEqual([1_060_000, 1_060_000]);
  expect(lengthOf(3_000_000)).toBe(3_180_000);
  expect(lengthOf(1e18)).toBe(4_240_000);
});

test('a latency of a nanosecond is seen at every event', () => {
  fc.assert(
    fc.property(bars, view, (some, shown) => {
      const model = modelOf(some.map(([start, duration]) => ({ start, duration })));
      const strips = projectedStrips(model, shown, { latencyNs: 1, only: {} });
      const { starts, ends } = projectTimes(model, { latencyNs: 1, only: {} });
      const isSeen = starts.some((start, row) => start > shown.fromNs && ends[row]! < shown.toNs);
      if (isSeen) expect(strips.flat()).toContain('added');
    }),
  );
});
