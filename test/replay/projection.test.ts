/** The projected time line against a naive oracle, and by hand where a picture says more. */
import fc from 'fast-check';
import { project, projectedIndex, recordedIndex } from '../../daemon/replay/projection.ts';
import type { Timeline } from '../../daemon/replay/timeline.ts';
import { larger, noBreath, type PlannedEvent, timelineOf } from './fixture.ts';

interface Projected {
  recorded: number;
  startNs: bigint;
  endNs: bigint;
}

/** Straight from the definition, event by event. */
function oracle(timeline: Timeline, extraLatencyNs: bigint): Projected[] {
  const all = Array.from({ length: timeline.count }, (_, recorded) => {
    let before = 0n;
    for (let other = 0; other < recorded; other++) if (timeline.thread[other] === timeline.thread[recorded]) before++;
    const startNs = timeline.startNs[recorded]! + before * extraLatencyNs;
    return { recorded, startNs, endNs: startNs + timeline.durationsNs[recorded]! + extraLatencyNs };
  });
  return all.sort((a, b) => (a.startNs === b.startNs ? a.recorded - b.recorded : a.startNs < b.startNs ? -1 : 1));
}

function plan(gaps: readonly { gapNs: bigint; durationNs: bigint; thread: number }[]): PlannedEvent[] {
  let startNs = 0n;
  return gaps.map(({ gapNs, durationNs, thread }, index) => {
    if (index > 0) startNs += gapNs;
    return { startNs, durationNs, thread };
  });
}

// Small numbers as well as large ones: ties and overtaking need both.
const times = fc.oneof(fc.bigInt({ min: 0n, max: 5n }), fc.bigInt({ min: 0n, max: 10n ** 12n }));
const plans = fc
  .array(fc.record({ gapNs: times, durationNs: times, thread: fc.nat(4) }), { minLength: 1, maxLength: 80 })
  .map(plan);
const latencies = fc.oneof(
  fc.constant(0n),
  fc.bigInt({ min: 1n, max: 7n }),
  fc.bigInt({ min: 1n, max: 3_600_000_000_000n }),
);

test('it is the time line that the definition gives', async () => {
  await fc.assert(
    fc.asyncProperty(plans, latencies, fc.option(times), async (planned, extraLatencyNs, timeoutNs) => {
      const timeline = timelineOf(planned);
      const projection = await project(timeline, { extraLatencyNs, timeoutNs }, noBreath);
      const expected = oracle(timeline, extraLatencyNs);
      expect(expected.map((_, index) => recordedIndex(projection, index))).toEqual(
        expected.map((event) => event.recorded),
      );
      expect([...projection.startNs]).toEqual(expected.map((event) => event.startNs));
      expect(projection.durationNs).toBe(expected.reduce((end, { endNs }) => larger(end, endNs), 0n));
      const late = timeoutNs === null ? -1 : expected.findIndex(({ endNs }) => endNs > timeoutNs);
      expect(projection.timeoutIndex).toBe(late < 0 ? null : late);
      expected.forEach(({ recorded }, index) => void expect(projectedIndex(projection, recorded)).toBe(index));
    }),
    { numRuns: 300 },
  );
});

test('a latency makes an event of another thread overtake', async () => {
  const timeline = timelineOf([
    { startNs: 0n, durationNs: 10n, thread: 0 },
    { startNs: 20n, durationNs: 10n, thread: 0 },
    { startNs: 25n, durationNs: 10n, thread: 1 },
  ]);
  const projection = await project(timeline, { extraLatencyNs: 7n, timeoutNs: 40n }, noBreath);
  expect([...projection.order!]).toEqual([0, 2, 1]);
  expect([...projection.startNs]).toEqual([0n, 25n, 27n]);
  expect(projection.durationNs).toBe(44n);
  expect(projection.timeoutIndex).toBe(1);
});

test('an event that ends exactly at the timeout is in time', async () => {
  const timeline = timelineOf([{ startNs: 0n, durationNs: 10n }]);
  expect((await project(timeline, { extraLatencyNs: 5n, timeoutNs: 15n }, noBreath)).timeoutIndex).toBeNull();
  expect((await project(timeline, { extraLatencyNs: 5n, timeoutNs: 14n }, noBreath)).timeoutIndex).toBe(0);
});

test('an hour on each of 5000 events stays exact, past what a double holds', async () => {
  const count = 5003;
  const timeline = timelineOf(
    Array.from({ length: count }, (_, index) => ({ startNs: BigInt(index), durationNs: 3n })),
  );
  const hourNs = 3_600_000_000_000n;
  const { startNs, durationNs } = await project(timeline, { extraLatencyNs: hourNs, timeoutNs: null }, noBreath);
  expect(startNs.at(-1)).toBe(BigInt(count - 1) * (hourNs + 1n));
  expect(durationNs).toBe(BigInt(count - 1) * (hourNs + 1n) + 3n + hourNs);
  expect(durationNs > 2n ** 53n).toBe(true);
});

test('a large merge lets the event loop have its turns', async () => {
  let breaths = 0;
  const timeline = timelineOf(
    Array.from({ length: 20_011 }, (_, index) => ({ startNs: BigInt(index), thread: index % 7 })),
  );
  await project(timeline, { extraLatencyNs: 1n, timeoutNs: null }, async () => void breaths++);
  expect(breaths).toBe(2);
});
