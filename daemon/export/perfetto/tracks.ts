/**
 * Selects the track on which an event is drawn. Calls are on the track of their thread, and requests are on the track
 * of their device, which serves many requests at once. Slices on one Perfetto track must not overlap, so a track here
 * consists of several lanes. An event takes the first free lane. Perfetto draws lanes with the same name together.
 */
import { createHash } from 'node:crypto';
import type { ApiEvent } from '../../../bpf/schema/api.ts';

export interface PerfettoTrack {
  readonly uuid: bigint;
  readonly parentUuid?: bigint;
  readonly name?: string;
  readonly process?: { pid: number; name: string };
  readonly thread?: { pid: number; tid: number; name: string };
}

interface TrackLane {
  uuid: bigint;
  endNs: bigint;
}

interface Tracks {
  /** Returns the UUID of the lane for an event that lasts from `startNs` to `endNs` in the trace. */
  findOrAddEventLane(event: ApiEvent, startNs: bigint, endNs: bigint): bigint;
  /** Returns the UUID of a free lane on the track with this name. Such a track belongs to no process or thread. */
  findOrAddNamedLane(name: string, startNs: bigint, endNs: bigint): bigint;
}

/** Creates the tracks. `declare` is called once for each track before its first event. */
export function createTracks(recordingId: string, declare: (track: PerfettoTrack) => void): Tracks {
  const lanes = new Map<string, TrackLane[]>();
  const processes = new Set<number>();

  /** Computes a UUID that also depends on the recording, so that traces of several recordings can be combined. */
  function computeUuid(key: string): bigint {
    return createHash('sha256').update(`${recordingId}\n${key}`).digest().readBigUInt64LE() | 1n;
  }

  function findOrAddLane(
    key: string,
    startNs: bigint,
    endNs: bigint,
    getTrack: (uuid: bigint, lane: number) => PerfettoTrack,
  ): bigint {
    const known = lanes.get(key) ?? [];
    if (known.length === 0) lanes.set(key, known);
    const free = known.find((lane) => lane.endNs <= startNs);
    if (free) {
      free.endNs = endNs;
      return free.uuid;
    }
    const uuid = computeUuid(`${key}\n${known.length}`);
    declare(getTrack(uuid, known.length));
    known.push({ uuid, endNs });
    return uuid;
  }

  function findOrAddNamedLane(name: string, startNs: bigint, endNs: bigint): bigint {
    return findOrAddLane(name, startNs, endNs, (uuid) => ({ uuid, name }));
  }

  function processTrack(pid: number, name: string): bigint {
    const uuid = computeUuid(`process ${pid}`);
    if (!processes.has(pid)) declare({ uuid, process: { pid, name } });
    processes.add(pid);
    return uuid;
  }

  function findOrAddThreadLane({ pid, tid, comm, service_name }: ApiEvent, startNs: bigint, endNs: bigint): bigint {
    const key = `thread ${pid} ${tid}`;
    return findOrAddLane(key, startNs, endNs, (uuid, lane) => {
      const parentUuid = processTrack(pid, service_name);
      if (lane === 0) return { uuid, parentUuid, thread: { pid, tid, name: comm } };
      return { uuid, parentUuid: computeUuid(`${key}\n0`), name: 'overlapping calls' };
    });
  }

  return {
    findOrAddNamedLane,
    findOrAddEventLane(event, startNs, endNs) {
      if ('device' in event) return findOrAddNamedLane(`${event.event_type} ${event.device}`, startNs, endNs);
      return findOrAddThreadLane(event, startNs, endNs);
    },
  };
}
