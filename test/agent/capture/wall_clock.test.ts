/**
 * Tests the wall clock for kernel times, on clocks of the test: noise changes nothing, any other change is reported
 * once.
 */
import { createWallClock } from '../../../agent/capture/wall_clock.ts';

const OFFSET_NS = 1_763_683_200_000_000_000n;
const BOOT_NS = 5_000_000_000n;

function setUp() {
  const clocks = { bootNs: BOOT_NS, offsetNs: OFFSET_NS, sleptNs: 0n };
  const clock = createWallClock((into) => {
    into[0] = clocks.bootNs + clocks.offsetNs;
    into[1] = clocks.bootNs;
    into[3] = clocks.bootNs - clocks.sleptNs;
  });
  /** Moves the offset by `ns` and returns the kind of change that is measured. */
  const moveBy = (ns: bigint) => {
    clocks.offsetNs += ns;
    clocks.bootNs += 1000n;
    return clock.measure()?.kind;
  };
  const usedNs = () => new BigInt64Array(clock.offsetWords.buffer)[0];
  return { clock, clocks, moveBy, usedNs };
}

test('the first measurement is reported as the start', () => {
  const { clock, usedNs } = setUp();
  expect(clock.measure()).toEqual({ bootNs: BOOT_NS, offsetNs: OFFSET_NS, kind: 'start', suspendedNs: 0n });
  expect(usedNs()).toBe(OFFSET_NS);
});

test('a start at offset zero is reported too', () => {
  const { clock, clocks } = setUp();
  clocks.offsetNs = 0n;
  expect(clock.measure()?.kind).toBe('start');
  expect(clock.measure()).toBeUndefined();
});

test.each([
  [0n, undefined],
  [1000n, undefined],
  [-1000n, undefined],
  [1001n, 'slew'],
  [-1001n, 'slew'],
  [999_999n, 'slew'],
  [-999_999n, 'slew'],
  [1_000_000n, 'step'],
  [-1_000_000n, 'step'],
  [3_600_000_000_000n, 'step'],
  [-2n * OFFSET_NS, 'step'],
])('a change of the offset by %p ns is reported as %p', (ns, kind) => {
  const { clock, clocks, moveBy, usedNs } = setUp();
  clock.measure();
  expect(moveBy(ns)).toBe(kind);
  expect(usedNs()).toBe(kind ? clocks.offsetNs : OFFSET_NS);
});

test('noise does not accumulate: only the distance to the offset in use counts', () => {
  const { clock, moveBy, usedNs } = setUp();
  clock.measure();
  expect([700n, -1400n, 1400n, 300n].map(moveBy)).toEqual([undefined, undefined, undefined, undefined]);
  expect(moveBy(1n)).toBe('slew');
  expect(usedNs()).toBe(OFFSET_NS + 1001n);
});

test('a change states when it was noticed, and is reported once', () => {
  const { clock, clocks, moveBy } = setUp();
  clock.measure();
  clocks.offsetNs += 5_000_000n;
  clocks.bootNs += 7n;
  const change = { bootNs: BOOT_NS + 7n, offsetNs: OFFSET_NS + 5_000_000n, kind: 'step', suspendedNs: 0n };
  expect(clock.measure()).toEqual(change);
  expect(moveBy(0n)).toBeUndefined();
});

test('a suspend of the node is reported once, with or without a step of its clock', () => {
  const { clock, clocks, moveBy } = setUp();
  clock.measure();
  clocks.bootNs += 60_000_000_000n;
  clocks.sleptNs += 59_000_000_000n;
  expect(clock.measure()).toMatchObject({ kind: 'suspend', offsetNs: OFFSET_NS, suspendedNs: 59_000_000_000n });
  expect(moveBy(0n)).toBeUndefined();
  clocks.sleptNs += 2_000_000_000n;
  clocks.offsetNs += 7_000_000n;
  expect(clock.measure()).toMatchObject({ kind: 'step', suspendedNs: 2_000_000_000n });
  // The reader was preempted between reading the two clocks.
  clocks.sleptNs -= 30_000_000n;
  expect(clock.measure()).toBeUndefined();
});

test('the shared words hold the offset in use, also after a step', () => {
  const { clock, moveBy } = setUp();
  const held = clock.offsetWords;
  clock.measure();
  moveBy(-2_000_000n);
  expect(BigInt(held[0]!) + (BigInt(held[1]!) << 32n)).toBe(OFFSET_NS - 2_000_000n);
});

test('the current time is the wall clock itself, not the one with the offset in use', () => {
  const { clock, clocks } = setUp();
  clock.measure();
  clocks.offsetNs += 900n;
  expect(clock.nowNs()).toBe(BOOT_NS + OFFSET_NS + 900n);
});

test('the clock of this machine starts, and gives the current time', () => {
  const clock = createWallClock();
  expect(clock.measure()?.kind).toBe('start');
  const differenceMs = Number(clock.nowNs() / 1_000_000n) - Date.now();
  expect(Math.abs(differenceMs)).toBeLessThan(1000);
});
