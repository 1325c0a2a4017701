/** Reads from recordings by how much their nodes' wall clocks stepped. */
import type { ClockStep } from '../../agent/recording/format/losses.ts';
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { NodeClock } from './store.ts';

export function clocksIn(
  recordings: readonly OpenRecording[],
  nodes: readonly string[],
  fromNs: bigint,
  toNs: bigint,
): NodeClock[] {
  return nodes.map((node) => {
    const steppedNs = recordings
      .filter((recording) => recording.node === node)
      .map(({ file, reader }) =>
        steppedWithin(
          withFailuresOf(file, () => reader.clockSteps()),
          fromNs,
          toNs,
        ),
      )
      // Overlapping files contain the same steps, so the largest sum counts.
      .reduce((most, other) => (other > most ? other : most), 0n);
    return { node, steppedNs };
  });
}

function steppedWithin(steps: readonly ClockStep[], fromNs: bigint, toNs: bigint): bigint {
  let sum = 0n;
  for (const [i, { kind, bootNs, offsetNs }] of steps.entries()) {
    const before = steps[i - 1];
    // A new agent started here: the movement since the previous agent stopped is unknown.
    if (!before || kind === 'start') continue;
    const movedNs = offsetNs - before.offsetNs;
    const atNs = bootNs + offsetNs;
    const wasAtNs = atNs - movedNs;
    const [firstNs, lastNs] = movedNs < 0n ? [atNs, wasAtNs] : [wasAtNs, atNs];
    if (firstNs < toNs && lastNs >= fromNs) sum += movedNs < 0n ? -movedNs : movedNs;
  }
  return sum;
}
