/** Makes small plans with the encoder that `kreplay run` uses. */
import { OPS, type Op, type PathKind, SIZE_UNKNOWN, STREAM_FLAGS } from '../../../daemon/run/format/plan_file.ts';
import { encodePlan } from '../../../daemon/run/plan/encode.ts';

export interface PlannedCall {
  targetNs?: number;
  size?: number;
  error?: number;
  offsetNs?: number;
  /** A combination of EVENT_FLAGS. */
  flags?: number;
}

export interface PlannedThread {
  op?: Op;
  path: string;
  pathKind?: PathKind;
  comm?: string;
  tid?: number;
  /** True if its calls and those of other threads on the file did not overlap. */
  isInOrder?: boolean;
  calls: readonly PlannedCall[];
}

const GAP_NS = 1000;

/** Encodes one stream with one slot for each thread; calls follow one another in the given order. */
export function planOf(threads: readonly PlannedThread[], seed = 1n, flags = 0): Buffer {
  const calls = threads.flatMap((thread) => [...thread.calls]);
  const firsts = threads.map((_, i) => threads.slice(0, i).reduce((sum, { calls }) => sum + calls.length, 0));
  return encodePlan({
    seed,
    flags,
    streams: threads.map(({ op = 'write', path, pathKind = 'regular', comm = 'build', isInOrder }, i) => ({
      ...{ op, path, pathKind, comm, service: '', firstSlot: i, slotCount: 1 },
      flags: isInOrder ? STREAM_FLAGS.in_order : 0,
    })),
    slots: {
      tid: threads.map(({ tid }, i) => tid ?? 1000 + i),
      stream: threads.map((_, i) => i),
      firstEvent: firsts,
      eventCount: threads.map(({ calls }) => calls.length),
    },
    events: {
      offset_ns: calls.map(({ offsetNs }, i) => offsetNs ?? i * GAP_NS),
      target_ns: calls.map(({ targetNs = 0 }) => targetNs),
      size: calls.map(({ size = SIZE_UNKNOWN }) => size),
      error: calls.map(({ error = 0 }) => error),
      flags: calls.map(({ flags = 0 }) => flags),
    },
    eventCount: calls.length,
  } as unknown as Parameters<typeof encodePlan>[0]);
}

export const ALL_OPS = Object.keys(OPS) as Op[];
