/** What the page computes of a what-if: against the daemon, and against the words of the rule. */

import fc from 'fast-check';
import { parseJson, stringify } from '../../daemon/base/exact_json.ts';
import type { ReceivedCurveLine } from '../../daemon/contract/received.ts';
import { formatDuration, parseDuration } from '../../daemon/page/numbers/duration_text.ts';
import { computeProjection, toExactCurve } from '../../daemon/page/what_if/curve.ts';
import { createPopulation } from '../../daemon/page/what_if/population.ts';
import { LATENCIES, placeOn, TIMEOUTS } from '../../daemon/page/what_if/scale.ts';
import {
  describeDeadline,
  describePopulation,
  describeProjection,
  formatShares,
} from '../../daemon/page/what_if/words.ts';
import { buildCurveView } from '../../daemon/replay/plan/curves.ts';
import { createPlanner } from '../../daemon/replay/plan/planner.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../daemon/store/embedded/recordings.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { times } from '../repeats.ts';

const [INT64_MAX, HOUR_NS] = [2n ** 63n - 1n, 3_600_000_000_000n];
const same = (text: string) => text;

const opened: Recordings[] = [];
afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

/** Durations as clients send them: round ones, and those that a double cannot hold. */
const duration = fc.oneof(
  fc.bigInt(0n, 100_000n),
  fc.bigInt(0n, INT64_MAX),
  fc.constantFrom(0n, 1n, 2n ** 53n, 2n ** 53n + 1n, INT64_MAX),
);
const latency = fc.oneof(fc.bigInt(0n, 100_000n), fc.bigInt(0n, HOUR_NS), fc.constantFrom(0n, 1n, HOUR_NS));
const deadline = fc.oneof(fc.bigInt(1n, 100_000n), fc.bigInt(1n, INT64_MAX), fc.constantFrom(1n, 2n ** 53n + 1n));
const line = fc.record({ events: fc.oneof(fc.nat(20), fc.nat(5_000_000)), end_ns: duration });
const lines = fc.array(line, { minLength: 1, maxLength: 6 });
/** As the page reads them: JSON with numbers up to 2^53. */
const read = (curve: readonly { events: number; end_ns: bigint }[]) =>
  parseJson(stringify(curve)) as ReceivedCurveLine[];

test('a projection is what each line says by itself', () => {
  fc.assert(
    fc.property(lines, latency, fc.option(deadline), (curve, latencyNs, timeoutNs) => {
      const ends = curve.map(({ events, end_ns }) => end_ns + BigInt(events) * latencyNs);
      const longest = ends.reduce((most, ns) => (ns > most ? ns : most), 0n);
      const { durationNs, timesOut, smallestNs } = computeProjection(toExactCurve(read(curve)), latencyNs, timeoutNs);
      expect(durationNs).toBe(longest);
      expect(timesOut).toBe(timeoutNs !== null && longest > timeoutNs);
      const misses = (ns: bigint) => curve.some(({ events, end_ns }) => end_ns + BigInt(events) * ns > timeoutNs!);
      if (smallestNs === null) expect(timeoutNs === null || !misses(2n ** 64n)).toBe(true);
      else expect([misses(smallestNs), smallestNs > 0n && misses(smallestNs - 1n)]).toEqual([true, false]);
    }),
  );
});

const TRANSACTIONS = ['tx-1', 'tx-2', 'tx-3'];
const planned = fc.record({
  gapNs: fc.nat(1000),
  duration: fc.oneof(fc.nat(50_000).map(BigInt), fc.bigInt({ min: 2n ** 60n, max: 2n ** 61n })),
  tid: fc.nat(2),
  service: fc.constantFrom('web', 'db'),
  transaction: fc.constantFrom(...TRANSACTIONS),
  type: fc.constantFrom('sys_write' as const, 'sys_sync' as const),
});
const rowsOf = fc.array(planned, { minLength: 1, maxLength: 40 }).map((all) => {
  let at = START;
  return all.map(({ gapNs, ...row }): Row => {
    at += BigInt(gapNs);
    return { ...row, at };
  });
});
const only = fc.record(
  { eventTypes: fc.constantFrom(['sys_write'], ['sys_sync']), services: fc.constantFrom(['web'], ['none']) },
  { requiredKeys: [] },
);

test('the daemon computes the same, for one transaction and for how many of all', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, only, latency, deadline, async (rows, only, extraLatencyNs, timeoutNs) => {
      const store = openRecordingStore(recorded(rows));
      opened.push(store);
      const planner = createPlanner(store);
      const common = { extraLatencyNs, timeoutNs, clockOffsetsNs: {}, only, limit: 0 };
      const ids = [...new Set(rows.map(({ transaction }) => transaction!))];
      const answers = await Promise.all(ids.map((transactionId) => planner.whatIf({ transactionId, ...common })));
      for (const answer of answers) {
        const curve = toExactCurve(read(buildCurveView(answer.curve)));
        expect(computeProjection(curve, extraLatencyNs, timeoutNs)).toEqual({
          recordedNs: answer.recordedDurationNs,
          durationNs: answer.durationNs,
          timesOut: answer.afterTimeoutCount > 0,
          smallestNs: answer.smallestLatencyNs,
        });
      }
      const population = createPopulation(answers.map(({ curve }) => read(buildCurveView(curve))));
      const late = answers.filter(({ afterTimeoutCount }) => afterTimeoutCount > 0);
      expect(population.countMissed(extraLatencyNs, timeoutNs)).toBe(late.length);
    }),
    { numRuns: times(10) },
  );
});

test('a population counts exactly, also where doubles round', () => {
  fc.assert(
    fc.property(fc.array(lines, { maxLength: 30 }), latency, deadline, (curves, latencyNs, timeoutNs) => {
      const population = createPopulation(curves.map(read));
      const late = curves.filter((curve) =>
        curve.some(({ events, end_ns }) => end_ns + BigInt(events) * latencyNs > timeoutNs),
      );
      expect([population.count, population.countMissed(latencyNs, timeoutNs)]).toEqual([curves.length, late.length]);
    }),
  );
  const edge = createPopulation([[{ events: 1, end_ns: 2n ** 53n }], [{ events: 1, end_ns: 2n ** 63n - 1n }]]);
  expect(edge.countMissed(0n, 2n ** 53n)).toBe(1);
  expect(edge.countMissed(1n, 2n ** 53n)).toBe(2);
  expect(edge.countMissed(1n, 2n ** 53n + 1n)).toBe(1);
  expect(edge.countMissed(0n, INT64_MAX)).toBe(0);
  const small = createPopulation([[{ events: 1, end_ns: 100n }]]);
  expect([small.countMissed(0n, 100n), small.countMissed(0n, 99n), small.countMissed(1n, 100n)]).toEqual([0, 1, 1]);
});

test('the sliders have round values, each of which finds its own place', () => {
  for (const scale of [LATENCIES, TIMEOUTS]) {
    for (const [place, value] of scale.entries()) expect(placeOn(scale, value)).toBe(place);
    const values = scale.filter((value) => value !== null);
    expect(values).toEqual(values.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(values).toEqual(expect.arrayContaining([1000n, 5_000_000n, 250_000_000n, HOUR_NS]));
  }
  fc.assert(
    fc.property(duration, (ns) => {
      const distance = (value: bigint | null) => (value === null ? null : value > ns ? value - ns : ns - value);
      const found = distance(LATENCIES[placeOn(LATENCIES, ns)]!)!;
      for (const value of LATENCIES) expect(distance(value)! >= found).toBe(true);
    }),
  );
  expect(TIMEOUTS.at(-1)).toBeNull();
  expect(placeOn(TIMEOUTS, INT64_MAX)).toBe(TIMEOUTS.length - 2);
});

test('a duration as text is read as the same nanoseconds', () => {
  fc.assert(
    fc.property(fc.bigInt(-INT64_MAX, INT64_MAX), (ns) => {
      expect(parseDuration(formatDuration(ns))).toBe(ns);
    }),
  );
});

test.each<[string, bigint | null]>([
  ['5', 5_000_000n],
  ['1.5s', 1_500_000_000n],
  [' +250 us ', 250_000n],
  ['-0.2 \u03bcs', -200n],
  ['3 200 187 ns', 3_200_187n],
  ['2 min', 120_000_000_000n],
  ['9223372036854775807 ns', INT64_MAX],
  ['9223372036854775808 ns', null],
  ['0.0000001 ms', null],
  ['0.50000000 s', 500_000_000n],
  ['1.5 h', null],
  ['', null],
  ['ms', null],
  ['5 weeks', null],
  ['5 constructor', null],
  ['1e3', null],
  ['9'.repeat(100_000), null],
])('%s as a duration', (text, ns) => {
  expect(parseDuration(text)).toBe(ns);
});

test('answers in words', () => {
  const ms = 1_000_000n;
  const kept = { recordedNs: 100n * ms, durationNs: 110n * ms, timesOut: false, smallestNs: 3_200_187n };
  expect(describeProjection(kept)).toBe('100.0 ms becomes 110.0 ms');
  expect(describeProjection({ ...kept, durationNs: 100n * ms })).toBe('stays 100.0 ms');
  expect(describeDeadline(kept, null)).toBe('no deadline');
  expect(describeDeadline(kept, 1n)).toBe('✓ in time; times out from +3.200187 ms on');
  expect(describeDeadline({ ...kept, timesOut: true }, 1n)).toBe('✕ times out, from +3.200187 ms on');
  expect(describeDeadline({ ...kept, timesOut: true, smallestNs: 0n }, 1n)).toBe('✕ times out, also as recorded');
  expect(describeDeadline({ ...kept, smallestNs: null }, 1n)).toBe('✓ in time, with any latency');
  expect(describeDeadline(kept, 1n, true)).toBe('✕ times out: a call in progress has not ended by then');
  expect(describeDeadline(kept, 1n, null)).toBe('▲ not known: a call in progress may not have ended by then');
  expect(describeDeadline({ ...kept, timesOut: true }, 1n, null)).toBe('✕ times out, from +3.200187 ms on');
  expect(formatShares(1000, 6, 16)).toBe('0.60 % → 1.6 % time out');
  expect(formatShares(0, 0, 0)).toBe('none is recorded');
  expect(describePopulation(10_000, { service: ['a', 'b'], from: 1n }, true, same)).toBe(
    'of the newest 10 000 transactions of a or b in this window',
  );
  expect(describePopulation(1, {}, false, same)).toBe('of 1 transaction');
});
