/**
 * Wall clock of kernel times: CLOCK_BOOTTIME + an offset that is measured again and again.
 *
 * The offset in use moves only when the measured one leaves it by more than the measurement's noise, so that events
 * keep their order; a move is told to the recording, and times already written never change.
 */
import { readClocks } from 'libbpf-ts';
import type { ClockStep } from '../recording/format/losses.ts';

/** A reading is good to some 100 ns; NTP slews by up to 500 us a second. */
const NOISE_NS = 1000n;
/** A larger move is a step: someone set the clock. */
const STEP_NS = 1_000_000n;

/**
 * CLOCK_MONOTONIC stands still while the node sleeps, CLOCK_BOOTTIME does not. The two are read one after the other, and
 * on a busy node the reader may have to wait in between.
 */
const SUSPEND_NS = 500_000_000n;

export interface WallClock {
  /** The offset in use: low and high word of a 64-bit integer. */
  readonly offsetWords: Uint32Array;
  /** Measures; gives the change when the offset moved, or the node has slept. */
  measure(): ClockStep | undefined;
  /** The wall clock now, nanoseconds since the epoch. */
  nowNs(): bigint;
  /** CLOCK_BOOTTIME now, as records have it. */
  bootNs(): number;
  /** The wall clock at a time of CLOCK_BOOTTIME, by the offset in use: as events have it. */
  wallNs(bootNs: number): bigint;
}

/** Fills [CLOCK_REALTIME, CLOCK_BOOTTIME, uncertainty, CLOCK_MONOTONIC] in nanoseconds. */
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
    wallNs(bootNs) {
      return BigInt(bootNs) + offset[0]!;
    },
  };
}
