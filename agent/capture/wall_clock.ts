/**
 * Converts kernel times to wall-clock times: CLOCK_BOOTTIME + an offset, which is measured repeatedly.
 *
 * The offset in use changes only when a measured offset differs by more than the measurement's noise, so that events
 * keep their order. Each change is recorded, and times already written never change.
 */
import { readClocks } from 'libbpf-ts/kernel';
import type { ClockStep } from '../recording/format/losses.ts';

/**
 * Changes up to this size count as noise: a measurement is accurate to some 100 ns, and NTP slews by up to 500 us a
 * second.
 */
const NOISE_NS = 1000n;
/** A change of at least this size counts as a step: somebody has set the clock. */
const STEP_NS = 1_000_000n;

/**
 * Minimum time that CLOCK_BOOTTIME must gain on CLOCK_MONOTONIC, which stops during sleep, to count as sleep of the
 * node. A smaller gain may come from a delay between reading the two clocks.
 */
const SUSPEND_NS = 500_000_000n;

export interface WallClock {
  /** The offset in use, as the low and high word of a 64-bit integer. */
  readonly offsetWords: Uint32Array;
  /** Measures the offset. Returns the change if the offset moved or the node has slept. */
  measure(): ClockStep | undefined;
  /** The current wall-clock time, in nanoseconds since the epoch. */
  nowNs(): bigint;
  /** The current CLOCK_BOOTTIME, which is the clock of the records. */
  bootNs(): number;
  /** Converts a time of CLOCK_BOOTTIME to wall-clock time with the offset in use, like the times of events. */
  toWallNs(bootNs: number): bigint;
}

/** Fills `into` with [CLOCK_REALTIME, CLOCK_BOOTTIME, uncertainty, CLOCK_MONOTONIC] in nanoseconds. */
export type ReadClocks = (into: BigInt64Array) => void;

export function createWallClock(read: ReadClocks = readClocks): WallClock {
  const clocks = new BigInt64Array(4);
  const offset = new BigInt64Array(1);
  let started = false;
  let sleptNs = 0n;
  return {
    offsetWords: new Uint32Array(offset.buffer),
    measure() {
      read(clocks);
      const measured = clocks[0]! - clocks[1]!;
      const slept = clocks[1]! - clocks[3]!;
      const suspendedNs = started && slept - sleptNs >= SUSPEND_NS ? slept - sleptNs : 0n;
      if (!started || suspendedNs > 0n) sleptNs = slept;
      const moved = measured - offset[0]!;
      const distance = moved < 0n ? -moved : moved;
      if (started && distance <= NOISE_NS && suspendedNs === 0n) return undefined;
      const kind = !started ? 'start' : distance >= STEP_NS ? 'step' : suspendedNs > 0n ? 'suspend' : 'slew';
      started = true;
      offset[0] = measured;
      return { bootNs: clocks[1]!, offsetNs: measured, kind, suspendedNs };
    },
    nowNs() {
      read(clocks);
      return clocks[0]!;
    },
    bootNs() {
      read(clocks);
      return Number(clocks[1]!);
    },
    toWallNs(bootNs) {
      return BigInt(bootNs) + offset[0]!;
    },
  };
}
