/**
 * A loss is reported for a time range that contains it. An agent can be delayed between any two instructions: stopped,
 * or without a CPU. Here it is delayed at every reading of a clock, just before or just after it; and the clock is set.
 */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { readClocks } from 'libbpf-ts/kernel';
import { filterSettings } from '../../agent/filter/settings.ts';
import type { Loss, LossSums } from '../../agent/recording/format/losses.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { rowsOf, temporaryFolder } from '../agent/recording/fixture.ts';
import { compileProgram, run, wallClockNs } from './programs.ts';
import { openRecorderParts } from './recorder_parts.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const RING_BYTES = 1 << 16;
/** Failed writes, more than twice what the ring holds. As many fast writes are left out while the ring is full. */
const FAILED = 2000;
/** The program counts on: the first write into its pipe. */
const WRITES = 2 * FAILED + 1;
/** Less than a program takes to its first write, and from its last write to its end: two clocks are compared. */
const STARTING_NS = 100_000n;
const ENDING_NS = 100_000n;
/** More than one turn makes. */
const READINGS_MAX = 20;

/** The name of the program here: the recorder takes its events only, so that no other program fills the ring. */
const NAME = `overflows${process.pid}`;
const PROGRAM = join(folder.path, NAME);
const OPTIONS = { eventBytes: RING_BYTES, settings: filterSettings({ comms: [NAME] }) };

beforeAll(() => copyFileSync(compileProgram('overload'), PROGRAM));

/** Returns a time before the first write, and a time behind the last one. */
function overflowTheRing(): { startedNs: bigint; endedNs: bigint } {
  const startedNs = wallClockNs();
  run(PROGRAM, [String(FAILED), String(FAILED), '0']);
  return { startedNs, endedNs: wallClockNs() };
}

/** Start times of the recorded writes, in recorded order; and the losses by a ring that filled up. */
function recordedIn(path: string) {
  const reader = openReader(path);
  const rows = [...reader.scan({ filter: { comms: [NAME] } })].flatMap(rowsOf);
  const losses = reader.losses().filter(({ cause }) => cause === 'shed' || cause === 'ring_full');
  reader.close();
  return { times: rows.map(({ timestamp_ns }) => timestamp_ns as bigint), losses };
}

/** A recorder whose ring overflows at a chosen reading of a clock in a turn. */
function heldUp(side: 'before' | 'after') {
  const path = join(folder.path, 'recording.kreplay');
  let readings = Number.NEGATIVE_INFINITY;
  let held = 0;
  let overflowed: ReturnType<typeof overflowTheRing> | undefined;
  const overflow = (now: 'before' | 'after') => {
    if (now === side && readings === held) overflowed = overflowTheRing();
  };
  const { clock, writer, recorder, remove } = openRecorderParts(
    path,
    (into) => {
      overflow('before');
      readClocks(into);
      overflow('after');
      readings++;
    },
    OPTIONS,
  );
  return {
    remove,
    /** Returns what it recorded of the overflow at that reading, counted from 0. */
    at(reading: number) {
      recorder.drain();
      const fromNs = clock.nowNs();
      [readings, held] = [0, reading];
      recorder.drain();
      const wasHeld = readings > held;
      readings = Number.NEGATIVE_INFINITY;
      for (let drains = 0; drains < 3; drains++) recorder.drain();
      recorder.recordShed();
      writer.flush();
      const { times, losses } = recordedIn(path);
      return {
        wasHeld,
        overflowed: overflowed!,
        times: times.filter((time) => time > fromNs),
        losses: losses.filter((loss) => loss.toNs > fromNs),
      };
    },
  };
}

test.each(['before', 'after'] as const)('a delay just %s any reading of a clock', (side) => {
  const { at, remove } = heldUp(side);
  let held = 0;
  try {
    for (; held < READINGS_MAX; held++) {
      const { wasHeld, overflowed, times, losses } = at(held);
      if (!wasHeld) break;
      const lost = losses.reduce((sum, { count }) => sum + count, 0);
      expect(lost).toBeGreaterThanOrEqual(WRITES - times.length);
      expect(times.length).toBeLessThan(WRITES);
      const { startedNs, endedNs } = overflowed;
      const [full, shed] = [losses.filter(({ cause }) => cause === 'ring_full'), losses.filter(isSummed)];
      const told = full.map((loss) => loss.fromNs <= startedNs + STARTING_NS && loss.toNs >= endedNs - ENDING_NS);
      expect({ held, told }).toEqual({ held, told: expect.arrayContaining([true]) });
      // The period of a sum contains its calls, and one thread made them one after the other.
      expect(shed.length).toBeGreaterThan(0);
      for (const { fromNs, toNs, sums } of shed)
        expect([fromNs > startedNs, toNs < endedNs, sums.durationNs <= toNs - fromNs]).toEqual([true, true, true]);
    }
  } finally {
    remove();
  }
  expect(held).toBeGreaterThan(2);
  expect(held).toBeLessThan(READINGS_MAX);
});

function isSummed(loss: Loss): loss is Loss & { sums: LossSums } {
  return loss.cause === 'shed' && loss.sums !== undefined;
}

const HOUR_NS = 3_600_000_000_000n;

test.each([
  ['back', -2n * HOUR_NS],
  ['ahead', 2n * HOUR_NS],
])('the clock is set %s', (_, byNs) => {
  const path = join(folder.path, 'recording.kreplay');
  let setBy = 0n;
  const read = (into: BigInt64Array) => {
    readClocks(into);
    into[0]! += setBy;
  };
  const { writer, recorder, remove } = openRecorderParts(path, read, OPTIONS);
  recorder.drain();
  overflowTheRing();
  setBy = byNs;
  recorder.drain();
  recorder.recordShed();
  writer.flush();
  const { times, losses } = recordedIn(path);
  remove();
  // Fast writes were left out while the ring filled up, and the others found no room.
  expect(losses.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThanOrEqual(WRITES - times.length);
  // All times are by the clock's new setting, also of the last write that the ring held.
  const lastNs = times.at(-1)!;
  expect(losses.map(({ cause }) => cause).sort()).toEqual(['ring_full', 'shed']);
  for (const loss of losses) {
    const { fromNs, toNs } = loss;
    expect(toNs - fromNs).toBeLessThan(HOUR_NS);
    if (isSummed(loss)) expect([times[0]! < fromNs, toNs < lastNs + HOUR_NS]).toEqual([true, true]);
    else expect([fromNs < lastNs, lastNs < toNs]).toEqual([true, true]);
  }
});

test('what is lost before the recorder is there, in the time that its start takes, is within the range', () => {
  const path = join(folder.path, 'started.kreplay');
  const beforeNs = BigInt(Date.now()) * 1_000_000n;
  const { recorder, writer, remove } = openRecorderParts(path, readClocks, OPTIONS, overflowTheRing);
  try {
    for (let drains = 0; drains < 3; drains++) recorder.drain();
    recorder.recordShed();
    writer.flush();
    const { times, losses } = recordedIn(path);
    expect(losses.length).toBeGreaterThan(0);
    // The events that fitted came first, and those that did not came right behind.
    expect(times.length).toBeGreaterThan(0);
    for (const loss of losses)
      expect([loss.fromNs > beforeNs, isSummed(loss) || loss.fromNs <= times.at(-1)!]).toEqual([true, true]);
  } finally {
    remove();
  }
});
