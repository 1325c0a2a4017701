/** A real agent's parts in this process, with a clock that the test provides. */
import { rmSync } from 'node:fs';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { openProbes, type ProbesOptions } from '../../agent/capture/probes.ts';
import { createRecorder } from '../../agent/capture/recorder.ts';
import { createWallClock, type ReadClocks } from '../../agent/capture/wall_clock.ts';
import { openWriter } from '../../agent/recording/write/writer.ts';

export function openRecorderParts(
  path: string,
  read: ReadClocks,
  sizes: Pick<ProbesOptions, 'eventBytes' | 'ringCount' | 'requestsInFlightMax' | 'settings'>,
  onAttached: () => void = () => undefined,
) {
  const clock = createWallClock(read);
  const writer = openWriter({ path, node: 'n', bootId: 'b', machineId: 'm', nowNs: clock.nowNs });
  const cgroups = findCgroups();
  const probes = openProbes({ agentPid: process.pid, cgroupHierarchy: cgroups.hierarchy, ...sizes });
  onAttached();
  const recorder = createRecorder({
    probes,
    writer: {
      ...writer,
      freeRows: () => Number.POSITIVE_INFINITY,
      waitingMs: () => 0,
      unsyncedSinceNs: () => undefined,
      damage: () => undefined,
    },
    clock,
    cgroups,
    isOwnProcess: () => false,
    trustsService: () => true,
  });
  return {
    clock,
    writer,
    probes,
    recorder,
    remove() {
      probes.close();
      writer.close();
      rmSync(path);
    },
  };
}
