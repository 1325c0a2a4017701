/** The playhead between two frames: as fast as the session, never beyond its limit, without jumps for small differences. */
import fc from 'fast-check';
import { createPlayhead } from '../../daemon/page/replay/replay.ts';
import { lowerLatency, lowerSpeed, raiseLatency, raiseSpeed } from '../../daemon/page/replay/settings.ts';

test('it moves at the speed of the session, and stands still when that does', () => {
  const playhead = createPlayhead();
  playhead.run(2, 1e12);
  playhead.set(1e6, 100);
  expect(playhead.computePositionNs(100)).toBe(1e6);
  expect(playhead.computePositionNs(150)).toBe(1e6 + 100e6);
  playhead.stop(5e6);
  expect([playhead.computePositionNs(150), playhead.computePositionNs(1000), playhead.isRunning]).toEqual([
    5e6,
    5e6,
    false,
  ]);
});

test('it is never beyond its limit, and never before the start', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.001, max: 1000, noNaN: true }),
      fc.nat(1e9),
      fc.nat(1e6),
      (speed, limitNs, afterMs) => {
        const playhead = createPlayhead();
        playhead.run(speed, limitNs);
        playhead.set(0, 0);
        expect(playhead.computePositionNs(afterMs)).toBeLessThanOrEqual(limitNs);
        expect(playhead.computePositionNs(afterMs)).toBeGreaterThanOrEqual(0);
      },
    ),
  );
});

test('a small difference is made up for little by little, a large one at once', () => {
  const playhead = createPlayhead();
  playhead.run(1, 1e12);
  playhead.set(0, 0);
  playhead.set(90e6, 100);
  const first = playhead.computePositionNs(100);
  expect(first).toBeGreaterThan(90e6);
  expect(first).toBeLessThan(100e6);
  for (let i = 0; i < 120; i++) playhead.computePositionNs(100);
  expect(Math.round(playhead.computePositionNs(100))).toBe(90e6);
  playhead.set(500e6, 100);
  expect(playhead.computePositionNs(100)).toBe(500e6);
});

test('keys reach every latency from none to an hour, and the speeds of the API', () => {
  const latencies = [0n];
  while (latencies.at(-1)! < 3_600_000_000_000n) latencies.push(raiseLatency(latencies.at(-1)!));
  expect(latencies.slice(0, 5)).toEqual([0n, 100_000n, 200_000n, 500_000n, 1_000_000n]);
  expect(raiseLatency(3_600_000_000_000n)).toBe(3_600_000_000_000n);
  expect(latencies.toReversed().map(lowerLatency)).toEqual([...latencies.toReversed().slice(1), 0n]);
  expect([raiseSpeed(600), lowerSpeed(0.0015), raiseSpeed(1), lowerSpeed(1)]).toEqual([1000, 0.001, 2, 0.5]);
});
