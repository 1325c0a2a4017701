/** Tests how heavily losses are drawn: a column shows the share of the events that is missing, and is never lost. */
import fc from 'fast-check';
import { addTimeTexts } from '../../daemon/base/time_text.ts';
import { computeWeights, paintLosses } from '../../daemon/page/losses/weights.ts';

const BASE = 1_763_683_200_000_000_000n;
const S = 1_000_000_000n;
/** Forty thousand events a second on node `a`, in a minute that is shown in 600 columns. */
const COLUMNS = { count: 600, fromNs: BASE, lengthNs: 1e8 };
const sumOf = (cause: string, lost: number) => ({
  ...{ cause, node: 'a', lost, gap_count: 1, ...addTimeTexts({ from: BASE, to: BASE }) },
  rate: { ...addTimeTexts({ from: BASE, to: BASE + 60n * S }), lost: 1, recorded: 2_400_000, share: 0.5 },
});

type Gap = { from: bigint; to: bigint; lost: number; cause: string; node: string | null };

function weightsOf(...gaps: readonly Omit<Gap, 'node'>[]): Float32Array {
  const losses = [sumOf('end_missed', 1), sumOf('ring_full', 1), { ...sumOf('agent_stopped', 0), rate: null }];
  const about = { complete: false, lost: 1, ...addTimeTexts({ recorded_until: null }), nodes: [], node_count: 0 };
  const timed = gaps.map(({ from, to, ...gap }) => ({ ...gap, ...addTimeTexts({ from, to }), node: 'a' }));
  return computeWeights({ ...about, losses, gaps: timed }, COLUMNS);
}

const drawn = (weights: Float32Array) => [...weights.keys()].filter((at) => weights[at]! > 0);

test('one of forty thousand events is faint, a hole is not, and both are as wide as their time', () => {
  const tiny = weightsOf({ from: BASE + 10n * S, to: BASE + 11n * S, lost: 1, cause: 'end_missed' });
  expect(drawn(tiny)).toEqual(Array.from({ length: 10 }, (_, i) => 100 + i));
  expect(Math.max(...tiny)).toBeLessThan(0.15);
  const hole = weightsOf({ from: BASE + 10n * S, to: BASE + 13n * S, lost: 120_000 * 1000, cause: 'ring_full' });
  expect(drawn(hole)).toHaveLength(30);
  expect(Math.min(...hole.slice(100, 130))).toBeGreaterThan(0.99);
  const half = weightsOf({ from: BASE, to: BASE + 2n * S, lost: 80_000, cause: 'ring_full' });
  expect(half[0]).toBeCloseTo(Math.SQRT1_2, 5);
});

test('time in which nothing counted the events is a hole, and a single event at one moment is none', () => {
  expect(weightsOf({ from: BASE, to: BASE + S, lost: 0, cause: 'agent_stopped' })[5]).toBe(1);
  expect(weightsOf({ from: BASE, to: BASE + S, lost: 0, cause: 'unheard_of' })[5]).toBe(1);
  const moment = weightsOf({ from: BASE + 5n * S, to: BASE + 5n * S, lost: 1, cause: 'end_missed' });
  expect(drawn(moment)).toEqual([50]);
  expect(moment[50]).toBeLessThan(0.15);
});

test('a call in progress is faint, however long it lasts', () => {
  const weights = weightsOf({ from: BASE, to: BASE + 60n * S, lost: 1, cause: 'in_progress' });
  expect(drawn(weights)).toHaveLength(600);
  expect(Math.max(...weights)).toBeLessThan(0.15);
});

test('each gap has a column wherever it is, and the heaviest of a column counts', () => {
  const time = fc.bigInt({ min: -10n * S, max: 70n * S });
  fc.assert(
    fc.property(time, fc.bigInt({ min: 0n, max: 9n * S }), fc.nat(1e6), (at, length, lost) => {
      const gap = { from: BASE + at, to: BASE + at + length, lost, cause: 'ring_full' };
      const weights = weightsOf(gap, { from: BASE, to: BASE + 60n * S, lost: 1, cause: 'end_missed' });
      expect(drawn(weights)).toHaveLength(600);
      const own = weightsOf(gap);
      const isInside = at + length > 0n && at < 60n * S;
      if (isInside) expect(drawn(own).length).toBeGreaterThan(0);
      for (const column of own.keys()) expect(weights[column]).toBeGreaterThanOrEqual(own[column]!);
    }),
  );
});

test('narrow gaps are filled, wide ones hatched, and what is drawn below shows through', () => {
  const weights = new Float32Array(40);
  weights[2] = 1;
  weights.fill(0.5, 10, 30);
  const height = 12;
  const pixels = paintLosses(weights, height, 0x123456, 1);
  const column = (x: number) => Array.from({ length: height }, (_, y) => pixels[y * 40 + x]);
  expect(new Set(column(2))).toEqual(new Set([0xff123456]));
  expect(new Set(column(3))).toEqual(new Set([0]));
  const hatched = column(15);
  expect(new Set(hatched)).toEqual(new Set([0, 0x7f123456]));
  expect(hatched.filter((pixel) => pixel !== 0)).toHaveLength(4);
});
