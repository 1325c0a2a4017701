/** The strip of all events and the axis with a break, against slow and simple oracles. */
import fc from 'fast-check';
import { createLanes } from '../../daemon/model/lanes/model.ts';
import {
  computeAxis,
  computeAxisTimeNs,
  computeAxisWidthPx,
  computeAxisXPx,
  isOnAxis,
} from '../../daemon/page/draw/axis.ts';
import { dragSpan, findGrip } from '../../daemon/page/draw/brush.ts';
import { computeDensity, computeHeightShare } from '../../daemon/page/draw/density.ts';
import { computeExtents } from '../../daemon/page/draw/extents.ts';
import { LEAST_NS } from '../../daemon/page/draw/view.ts';
import { columnsOf, type MadeEvent } from '../daemon/model/columns/made_columns.ts';

const DAYS_NS = 100 * 86_400 * 1e9;

const parts = fc
  .record({
    fromNs: fc.integer({ min: 0, max: DAYS_NS }),
    inView: fc.integer({ min: LEAST_NS, max: 1e12 }),
    between: fc.oneof(fc.constant(0), fc.nat(1e12)),
    later: fc.integer({ min: LEAST_NS, max: 1e12 }),
    widthPx: fc.integer({ min: 100, max: 3000 }),
    dpr: fc.constantFrom(1, 1.5, 2),
  })
  .map(({ fromNs, inView, between, later, widthPx, dpr }) => {
    const toNs = fromNs + inView;
    const folded = { fromNs: toNs + between, toNs: toNs + between + later };
    return { axis: computeAxis({ fromNs, toNs, widthPx, dpr }, folded), fromNs, toNs, folded, widthPx };
  });
const share = fc.double({ min: 0, max: 1, noNaN: true });

test('with a break, a later time is never further left, and a position leads back to its time', () => {
  fc.assert(
    fc.property(parts, share, share, ({ axis, fromNs, toNs, folded, widthPx }, a, b) => {
      expect(computeAxisWidthPx(axis)).toBe(widthPx);
      expect([computeAxisXPx(axis, fromNs), computeAxisXPx(axis, folded.toNs)]).toEqual([0, widthPx]);
      const timeAt = (at: number) => Math.round(fromNs + at * (folded.toNs - fromNs));
      const [early, late] = [timeAt(Math.min(a, b)), timeAt(Math.max(a, b))];
      expect(computeAxisXPx(axis, early)).toBeLessThanOrEqual(computeAxisXPx(axis, late));
      for (const ns of [early, late, fromNs, toNs, folded.fromNs, folded.toNs]) {
        // Between the parts there may be no time at all, which a position in the break cannot show.
        const back = computeAxisTimeNs(axis, computeAxisXPx(axis, ns));
        expect(Math.abs(back - ns)).toBeLessThanOrEqual(1 + (folded.toNs - fromNs) * 1e-12);
      }
      const [left, right] = [Math.min(a, b) * widthPx, Math.max(a, b) * widthPx];
      expect(computeAxisTimeNs(axis, left)).toBeLessThanOrEqual(computeAxisTimeNs(axis, right));
    }),
    { numRuns: 1000 },
  );
});

test('a time is on the axis if one of its parts has it', () => {
  fc.assert(
    fc.property(parts, share, fc.nat(1e12), ({ axis, fromNs, toNs, folded }, at, length) => {
      const start = Math.round(fromNs - 1e12 + at * (folded.toNs - fromNs + 2e12));
      const touches = (from: number, to: number) => Math.max(from, start) <= Math.min(to, start + length);
      expect(isOnAxis(axis, start, start + length)).toBe(touches(fromNs, toNs) || touches(folded.fromNs, folded.toNs));
    }),
  );
});

test('a picture that is too narrow for a break has none', () => {
  const view = { fromNs: 0, toNs: 10, widthPx: 4, dpr: 1 };
  expect(computeAxis(view, { fromNs: 10, toNs: 20 })).toEqual({ view, folded: null });
  expect(computeAxis(view, null)).toEqual({ view, folded: null });
});

const bars = fc.array(fc.tuple(fc.integer({ min: -500, max: 2500 }), fc.oneof(fc.nat(3), fc.nat(2000)), fc.boolean()), {
  maxLength: 60,
  size: 'max',
});

test('each column of the minimap has the number of its events, and of those that failed', () => {
  fc.assert(
    fc.property(
      bars,
      fc.nat(1500),
      fc.integer({ min: 1, max: 2500 }),
      fc.integer({ min: 1, max: 90 }),
      (some, ...of) => {
        const [fromNs, length, columns] = of;
        const density = computeDensity(
          {
            starts: Float64Array.from(some, ([start]) => start),
            ends: Float64Array.from(some, ([start, long]) => start + long),
            columns: { result: Float64Array.from(some, ([, , isFailed]) => (isFailed ? -5 : 0)) },
          },
          { fromNs, toNs: fromNs + length },
          columns,
        );
        const at = (ns: number) => (ns - fromNs) * (columns / length);
        const isIn = ([start, long]: (typeof some)[number], column: number) =>
          start < fromNs + length &&
          (Math.min(Math.floor(at(start)), columns - 1) === column ||
            (at(start) < column && at(start + long) > column));
        const all = Array.from({ length: columns }, (_, column) => some.filter((bar) => isIn(bar, column)));
        expect([...density.counts]).toEqual(all.map(({ length: count }) => count));
        expect([...density.failed]).toEqual(
          all.map((ofColumn) => ofColumn.filter(([, , isFailed]) => isFailed).length),
        );
      },
    ),
    { numRuns: 1000 },
  );
});

test('one event is seen beside a million', () => {
  expect(computeHeightShare(1, 1_000_000)).toBeGreaterThan(0.04);
  expect([computeHeightShare(0, 9), computeHeightShare(9, 9)]).toEqual([0, 1]);
});

test('what is dragged stays within the bounds, has at least the least length, and follows the pointer', () => {
  const bounds = { fromNs: 1000, toNs: 1_001_000 };
  const grip = fc.constantFrom('from' as const, 'to' as const, 'whole' as const);
  const moves = fc.array(fc.tuple(grip, fc.integer({ min: -2_000_000, max: 2_000_000 })));
  fc.assert(
    fc.property(moves, (some) => {
      let span = { fromNs: 400_000, toNs: 600_000 };
      for (const [by, ns] of some) {
        const next = dragSpan(span, by, ns, bounds);
        expect(next.fromNs).toBeGreaterThanOrEqual(bounds.fromNs);
        expect(next.toNs).toBeLessThanOrEqual(bounds.toNs);
        expect(next.toNs - next.fromNs).toBeGreaterThanOrEqual(LEAST_NS);
        if (by === 'whole') expect(next.toNs - next.fromNs).toBe(span.toNs - span.fromNs);
        if (by !== 'to' && next.fromNs > bounds.fromNs && next.toNs < bounds.toNs && next.toNs - next.fromNs > LEAST_NS)
          expect(next.fromNs).toBe(span.fromNs + ns);
        span = next;
      }
    }),
  );
});

test('a pointer finds each edge and the middle, of a narrow part too', () => {
  fc.assert(
    fc.property(fc.nat(500), fc.nat(500), (fromPx, widthPx) => {
      const toPx = fromPx + widthPx;
      expect(findGrip(fromPx, toPx, fromPx - 1)).toBe('from');
      expect(findGrip(fromPx, toPx, toPx + 1)).toBe('to');
      if (widthPx >= 4) expect(findGrip(fromPx, toPx, (fromPx + toPx) / 2)).toBe('whole');
      expect(findGrip(fromPx, toPx, fromPx - 13)).toBe(null);
      expect(findGrip(fromPx, toPx, toPx + 13)).toBe(null);
    }),
  );
});

describe('what a picture shows at first', () => {
  const extents = (events: readonly Partial<MadeEvent>[]) =>
    computeExtents(createLanes(columnsOf(events), { transactions: new Set(['order-1']) }));

  test('is the own time; what was written back later is folded', () => {
    const later = { source: 'origin', type: 'block_io' as const, start: 5_000_000, duration: 1000 };
    const { normal, unfolded, folded, all } = extents([{ start: 0, duration: 100_000 }, later]);
    expect([normal.fromNs, normal.toNs]).toEqual([-3000, 103_000]);
    expect(unfolded.toNs).toBeGreaterThan(5_001_000);
    expect(folded).toEqual({ fromNs: normal.toNs, toNs: unfolded.toNs });
    expect(all).toEqual(unfolded);
  });

  test('has no break for write-back within the own time, nor for requests of others', () => {
    const within = { source: 'origin', type: 'block_io' as const, start: 5000, duration: 1000 };
    const others = { transaction: null, type: 'block_io' as const, start: 90_000, duration: 9_000_000 };
    const { normal, unfolded, folded, all } = extents([{ start: 0, duration: 100_000 }, within, others]);
    expect([folded, unfolded]).toEqual([null, normal]);
    expect(all.toNs).toBe(9_090_000);
  });

  test('is never empty: not without events, nor for one that took no time', () => {
    for (const events of [[], [{ duration: 0 }]]) {
      const { normal, all } = extents(events);
      expect(normal.toNs - normal.fromNs).toBeGreaterThanOrEqual(LEAST_NS);
      expect(all.toNs - all.fromNs).toBeGreaterThanOrEqual(LEAST_NS);
    }
  });
});
