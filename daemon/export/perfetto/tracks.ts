/**
 * Selects the track on which an event is drawn. A thread does one thing at a time, so its calls are on the thread's
 * track. A device serves many requests at once. Slices of one track must not overlap, so a track is a set of lanes, and
 * an event takes the first lane that is free. Perfetto draws lanes of the same name together.
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
  /** Returns the UUID of a lane in a track that has only a name. */
  findOrAddNamedLane(name: string, startNs: bigint, endNs: bigint): bigint;
}

/** `declare` is called once for each track, before the track is used. */
export function createTracks(recordingId: string, declare: (track: PerfettoTrack) => void): Tracks {
  const lanes = new Map<string, TrackLane[]>();
  const processes = new Set<number>();

  /** Ids are random enough for combining traces of several recordings. */
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
