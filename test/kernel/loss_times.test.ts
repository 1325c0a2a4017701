/**
 * An agent can be held up between any two instructions: stopped, or without a CPU. Here it is at every reading of a
 * clock, just before or just after it, and what is lost meanwhile must be told in a time that it belongs to.
 */
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { readClocks } from 'libbpf-ts';
import { openReader } from '../../agent/recording/reader.ts';
import { rowsOf, temporaryFolder } from '../recording/fixture.ts';
import { bash } from './programs.ts';
import { openRecorderParts } from './recorder_parts.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const RING_BYTES = 1 << 16;
/** Twice what the ring holds, and more. */
const WRITES = 2000;
/** More than a turn has. */
const READINGS_MAX = 20;

/** What a recorder tells when its ring overflows at the `held`-th reading of a clock in a turn. */
function heldUpAt(held: number, side: 'before' | 'after') {
  const path = join(folder.path, 'recording.kreplay');
  let readings = Number.NEGATIVE_INFINITY;
  const overflow = (now: 'before' | 'after') => {
    if (now === side && readings === held) bash(`dd if=/dev/zero of=/dev/null bs=1 count=${WRITES} status=none`);
  };
  const { clock, writer, recorder, remove } = openRecorderParts(
    path,
    (into) => {
      overflow('before');
      readClocks(into);
      overflow('after');
      readings++;
    },
    RING_BYTES,
  );
  recorder.turn();
  const fromNs = clock.nowNs();
  readings = 0;
  recorder.turn();
  const wasHeld = readings > held;
  readings = Number.NEGATIVE_INFINITY;
  const toNs = clock.nowNs();
  for (let turns = 0; turns < 3; turns++) recorder.turn();
  writer.flush();
  const reader = openReader(path);
  const rows = [...reader.scan({ filter: { comm: 'dd' } })].flatMap(rowsOf);
  const losses = reader.losses().filter(({ cause }) => cause === 'ring_full');
  reader.close();
  remove();
  const times = rows.map(({ timestamp_ns }) => timestamp_ns as bigint);
  return { wasHeld, fromNs, toNs, times, losses };
}

test.each(['before', 'after'] as const)('held up just %s any reading of a clock', (side) => {
  let held = 0;
  for (; held < READINGS_MAX; held++) {
    const { wasHeld, fromNs, toNs, times, losses } = heldUpAt(held, side);
    if (!wasHeld) break;
    const lost = losses.reduce((sum, { count }) => sum + count, 0);
    expect(lost).toBeGreaterThanOrEqual(WRITES - times.length);
    expect(times.length).toBeLessThan(WRITES);
    // dd's last writes are lost, all that come after the last that the ring held.
    const overflowNs = times.filter((time) => time > fromNs && time < toNs).at(-1)!;
    const told = losses.map((loss) => loss.fromNs <= overflowNs && loss.toNs > overflowNs);
    expect({ held, told }).toEqual({ held, told: expect.arrayContaining([true]) });
  }
  expect(held).toBeGreaterThan(2);
  expect(held).toBeLessThan(READINGS_MAX);
});
