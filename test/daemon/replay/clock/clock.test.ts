/** Tests the clock alone, on simulated time: position and deadlines are exact after any sequence of operations. */
import fc from 'fast-check';
import { createClock } from '../../../../daemon/replay/clock/clock.ts';

const S = 1_000_000_000n;

function clockAt(speedFactor: number, startNs = 123n) {
  const time = { ns: startNs };
  return { time, clock: createClock(() => time.ns, speedFactor) };
}

test('a new clock is at the start', () => {
  const { time, clock } = clockAt(1);
  time.ns += S;
  expect(clock.running).toBe(false);
  expect(clock.positionNs()).toBe(0n);
});

test('steady time is kept to the nanosecond, past what a double holds', () => {
  const { time, clock } = clockAt(1, 2n ** 62n + 1n);
  clock.play();
  for (const elapsed of [1n, 2n ** 53n + 1n, 2n ** 61n + 3n]) {
    time.ns = 2n ** 62n + 1n + elapsed;
    expect(clock.positionNs()).toBe(elapsed);
    expect(clock.computeDueNs(elapsed)).toBe(time.ns);
  }
});

test('a rate is the exact decimal that was written, even after years', () => {
  const { time, clock } = clockAt(0.1, 0n);
  clock.play();
  const tenYearsNs = 10n * 365n * 86_400n * S;
  time.ns = tenYearsNs * 10n;
  expect(clock.positionNs()).toBe(tenYearsNs);
  expect(clock.computeDueNs(tenYearsNs + 1n)).toBe(time.ns + 10n);
});

test.each([
  [2, 6n],
  [0.5, 1n],
  [0.001, 0n],
  [1000, 3000n],
  [1.5, 4n],
])('at speed %p three nanoseconds are %p', (speed, position) => {
  const { time, clock } = clockAt(speed);
  clock.play();
  time.ns += 3n;
  expect(clock.positionNs()).toBe(position);
});

test('pausing freezes the current position', () => {
  const { time, clock } = clockAt(1);
  clock.play();
  time.ns += 7n;
  clock.pause();
  for (let i = 0; i < 3; i++) {
    expect(clock.positionNs()).toBe(7n);
    time.ns += S;
  }
});

test('resumes at the position where it was paused', () => {
  const { time, clock } = clockAt(2);
  clock.play();
  time.ns += 10n;
  clock.pause();
  time.ns += 1000n;
  clock.play();
  expect(clock.positionNs()).toBe(20n);
  time.ns += 5n;
  expect(clock.positionNs()).toBe(30n);
});

test('playing twice has no effect', () => {
  const { time, clock } = clockAt(0.3);
  clock.play();
  const due = clock.computeDueNs(S);
  time.ns += 1n;
  clock.play();
  expect(clock.computeDueNs(S)).toBe(due);
});

test('seeks backward and forward keep the rate', () => {
  const { time, clock } = clockAt(4);
  clock.play();
  time.ns += 100n;
  clock.jump(50n);
  expect(clock.positionNs()).toBe(50n);
  time.ns += 100n;
  expect(clock.positionNs()).toBe(450n);
  clock.jump(10_000n);
  expect(clock.computeDueNs(10_004n)).toBe(time.ns + 1n);
});

test('a seek while paused stays paused', () => {
  const { time, clock } = clockAt(1);
  clock.jump(5n);
  time.ns += 100n;
  expect(clock.positionNs()).toBe(5n);
  expect(clock.running).toBe(false);
});

test('a change of speed keeps the position and takes effect immediately', () => {
  const { time, clock } = clockAt(1);
  clock.play();
  time.ns += 100n;
  clock.setSpeed(10);
  expect(clock.positionNs()).toBe(100n);
  time.ns += 10n;
  expect(clock.positionNs()).toBe(200n);
  clock.pause();
  clock.setSpeed(0.5);
  time.ns += 10n;
  expect(clock.positionNs()).toBe(200n);
});

test('a deadline in the past stays in the past', () => {
  const { time, clock } = clockAt(0.5);
  clock.jump(100n);
  clock.play();
  expect(clock.computeDueNs(90n)).toBe(time.ns - 20n);
});

test('a paused clock has no deadlines', () => {
  expect(() => clockAt(1).clock.computeDueNs(1n)).toThrow('paused');
});

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e-7])('%p is not a valid speed', (speed) => {
  expect(() => clockAt(speed)).toThrow(RangeError);
});

test('at the deadline the clock has reached the position, and a nanosecond before it has not', () => {
  const speeds = fc.double({ min: 0.001, max: 1000, noNaN: true });
  const positions = fc.bigInt({ min: 1n, max: 2n ** 62n });
  fc.assert(
    fc.property(speeds, positions, positions, (speed, from, ahead) => {
      const { time, clock } = clockAt(speed);
      clock.jump(from);
      clock.play();
      const due = clock.computeDueNs(from + ahead);
      time.ns = due;
      expect(clock.positionNs() >= from + ahead).toBe(true);
      time.ns = due - 1n;
      expect(clock.positionNs() < from + ahead).toBe(true);
    }),
  );
});

test('a position as a number has the same deadline as a BigInt', () => {
  const speeds = fc.oneof(fc.double({ min: 0.001, max: 1000, noNaN: true }), fc.constantFrom(1, 0.1, 3, 0.7, 1000));
  const positions = fc.maxSafeNat();
  fc.assert(
    fc.property(speeds, positions, positions, fc.nat(1000), (speed, from, position, elapsed) => {
      const { time, clock } = clockAt(2);
      clock.jump(BigInt(from));
      clock.play();
      time.ns += BigInt(elapsed);
      clock.setSpeed(speed);
      expect(clock.computeDueNs(position)).toBe(clock.computeDueNs(BigInt(position)));
    }),
    { numRuns: 1000 },
  );
});

test('deadlines do not depend on how often the clock was read', () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: 0n, max: 10n * S }), { maxLength: 50 }), (pauses) => {
      const { time, clock } = clockAt(0.7);
      clock.play();
      const due = clock.computeDueNs(10n ** 15n);
      for (const ns of pauses) {
        time.ns += ns;
        clock.positionNs();
        expect(clock.computeDueNs(10n ** 15n)).toBe(due);
      }
    }),
  );
});
