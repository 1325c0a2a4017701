/**
 * Exports to a trace for Perfetto (https://ui.perfetto.dev). Each event is a slice, with the event's fields as
 * arguments. A flow connects the events of a transaction.
 *
 * The trace's times are boot-clock times. Perfetto converts them to the wall clock with snapshots of both clocks: one
 * at the first event, and one at each later step of the wall clock.
 */
import { createHash } from 'node:crypto';
import type { ClockStep, Loss } from '../../../agent/recording/format/losses.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { I64_MAX, max } from '../../base/bigints.ts';
import { readEventChunks } from '../../store/blocks/event.ts';
import { buildClockSpans, type ClockSpan } from '../clock_spans.ts';
import type { Encoder, Surroundings } from '../encoder.ts';
import type { FlatType } from '../flat_columns.ts';
import * as proto from './fields.ts';
import { createMessageWriter, type MessageWriter } from './messages.ts';
import { ARGUMENT_NAMES, ARGUMENTS, CATEGORIES, LOSS_CATEGORY, LOST_EVENTS, SLICE_NAMES, sliceName } from './names.ts';
import { createTracks, type PerfettoTrack } from './tracks.ts';

/** Id of the packet sequence, which must not be 0. All packets belong to this sequence. */
const SEQUENCE_ID = 1;

/** The latest time in a trace, because Perfetto's times are signed 64-bit integers. */
const TIME_NS_MAX = I64_MAX;

export function createPerfettoEncoder({ dictionary, firstNs, losses, clockSteps }: Surroundings): Encoder {
  const writer = createMessageWriter();
  const clock = createTraceClock(clockSteps, firstNs);
  const findFlow = createFlowFinder();

  function writePacket(write: () => void): void {
    writer.writeMessage(proto.TRACE.packet, () => {
      writer.writeInteger(proto.PACKET.trusted_packet_sequence_id, SEQUENCE_ID);
      write();
    });
  }

  const tracks = createTracks(dictionary.recordingId, (track) =>
    writePacket(() => writer.writeMessage(proto.PACKET.track_descriptor, () => writeTrack(writer, track))),
  );

  function writeEdge(type: number, traceNs: bigint, trackUuid: bigint, write: () => void): void {
    writePacket(() => {
      writer.writeInteger(proto.PACKET.sequence_flags, proto.NEEDS_INCREMENTAL_STATE);
      writer.writeInteger(proto.PACKET.timestamp, traceNs > TIME_NS_MAX ? TIME_NS_MAX : traceNs);
      writer.writeMessage(proto.PACKET.track_event, () => {
        writer.writeInteger(proto.TRACK_EVENT.type, type);
        writer.writeInteger(proto.TRACK_EVENT.track_uuid, trackUuid);
        write();
      });
    });
  }

  function slice(startNs: bigint, endNs: bigint, trackUuid: bigint, write: () => void): void {
    writeEdge(proto.SLICE_BEGIN, startNs, trackUuid, write);
    writeEdge(proto.SLICE_END, endNs, trackUuid, () => {});
  }

  /** Converts a wall-clock time to trace time; a time before the boot becomes 0. */
  function toTraceNs(wallNs: bigint): bigint {
    return max(0n, wallNs - clock.findOffsetNs(wallNs));
  }

  function writeEvent(event: ApiEvent): void {
    const { timestamp_ns: wallNs, duration_ns: durationNs, transaction_id: transactionId } = event;
    const startNs = toTraceNs(wallNs);
    const endNs = startNs + durationNs;
    slice(startNs, endNs, tracks.findOrAddEventLane(event, startNs, endNs), () => {
      writeNames(writer, event.event_type, sliceName(event));
      if (transactionId !== null) writer.writeFixed64(proto.TRACK_EVENT.flow_ids, findFlow(transactionId));
      writeArguments(writer, event);
    });
  }

  function writeLoss({ fromNs, toNs, cause, count }: Loss): void {
    const startNs = toTraceNs(fromNs);
    const endNs = max(startNs, toTraceNs(toNs));
    slice(startNs, endNs, tracks.findOrAddNamedLane('lost events', startNs, endNs), () => {
      writeNames(writer, LOSS_CATEGORY, cause);
      writeArgument(writer, LOST_EVENTS, 'unsigned', count);
    });
  }

  return {
    head() {
      for (const { traceNs, wallNs } of clock.readings)
        writePacket(() => writer.writeMessage(proto.PACKET.clock_snapshot, () => writeClocks(writer, traceNs, wallNs)));
      writePacket(() => {
        const flags = proto.INCREMENTAL_STATE_CLEARED | proto.NEEDS_INCREMENTAL_STATE;
        writer.writeInteger(proto.PACKET.sequence_flags, flags);
        writer.writeMessage(proto.PACKET.interned_data, () => writeInternedNames(writer));
      });
      return writer.take();
    },
    *encodeChunks(scanned) {
      for (const events of readEventChunks(scanned)) {
        for (const event of events) writeEvent(event);
        yield writer.take();
      }
    },
    tail() {
      for (const loss of losses()) writeLoss(loss);
      return writer.take();
    },
  };
}

/**
 * Returns a function that computes the flow id of a transaction. It caches the last id, because successive events often
 * belong to the same transaction.
 */
function createFlowFinder(): (transactionId: string) => bigint {
  let last: string | undefined;
  let flow = 0n;
  return (transactionId) => {
    if (transactionId !== last) flow = createHash('sha256').update(transactionId).digest().readBigUInt64LE();
    last = transactionId;
    return flow;
  };
}

/* Writes the messages inside a trace's packets. */

function writeInternedNames(writer: MessageWriter): void {
  const tables = [
    [proto.INTERNED_DATA.event_categories, CATEGORIES],
    [proto.INTERNED_DATA.event_names, SLICE_NAMES],
    [proto.INTERNED_DATA.debug_annotation_names, ARGUMENT_NAMES],
  ] as const;
  for (const [field, names] of tables) {
    for (const [name, iid] of names) {
      writer.writeMessage(field, () => {
        writer.writeInteger(proto.INTERNED.iid, iid);
        writer.writeText(proto.INTERNED.name, name);
      });
    }
  }
}

function writeClocks(writer: MessageWriter, boottimeNs: bigint, realtimeNs: bigint): void {
  const readings = [
    [proto.BUILTIN_CLOCK.boottime, boottimeNs],
    [proto.BUILTIN_CLOCK.realtime, realtimeNs],
  ] as const;
  for (const [id, ns] of readings) {
    writer.writeMessage(proto.CLOCK_SNAPSHOT.clocks, () => {
      writer.writeInteger(proto.CLOCK.clock_id, id);
      writer.writeInteger(proto.CLOCK.timestamp, ns);
    });
  }
  writer.writeInteger(proto.CLOCK_SNAPSHOT.primary_trace_clock, proto.BUILTIN_CLOCK.boottime);
}

function writeTrack(writer: MessageWriter, { uuid, parentUuid, name, process, thread }: PerfettoTrack): void {
  writer.writeInteger(proto.TRACK_DESCRIPTOR.uuid, uuid);
  if (parentUuid !== undefined) writer.writeInteger(proto.TRACK_DESCRIPTOR.parent_uuid, parentUuid);
  if (name !== undefined) writer.writeText(proto.TRACK_DESCRIPTOR.name, name);
  if (process) {
    writer.writeMessage(proto.TRACK_DESCRIPTOR.process, () => {
      writer.writeInteger(proto.PROCESS_DESCRIPTOR.pid, process.pid);
      writer.writeText(proto.PROCESS_DESCRIPTOR.process_name, process.name);
    });
  }
  if (thread) {
    writer.writeMessage(proto.TRACK_DESCRIPTOR.thread, () => {
      writer.writeInteger(proto.THREAD_DESCRIPTOR.pid, thread.pid);
      writer.writeInteger(proto.THREAD_DESCRIPTOR.tid, thread.tid);
      writer.writeText(proto.THREAD_DESCRIPTOR.thread_name, thread.name);
    });
  }
}

/** Writes the name of a slice. A name from a newer schema has no number, so the category is used instead. */
function writeNames(writer: MessageWriter, category: string, name: string): void {
  writer.writeInteger(proto.TRACK_EVENT.category_iids, CATEGORIES.get(category)!);
  writer.writeInteger(proto.TRACK_EVENT.name_iid, (SLICE_NAMES.get(name) ?? SLICE_NAMES.get(category))!);
}

function writeArguments(writer: MessageWriter, event: ApiEvent): void {
  for (const column of ARGUMENTS) {
    const value = column.getValue(event);
    if (value !== null) writeArgument(writer, column.name, column.type, value);
  }
}

function writeArgument(writer: MessageWriter, name: string, type: FlatType, value: string | number | bigint): void {
  writer.writeMessage(proto.TRACK_EVENT.debug_annotations, () => {
    writer.writeInteger(proto.DEBUG_ANNOTATION.name_iid, ARGUMENT_NAMES.get(name)!);
    if (typeof value === 'string') writer.writeText(proto.DEBUG_ANNOTATION.string_value, value);
    else writer.writeInteger(proto.DEBUG_ANNOTATION[type === 'unsigned' ? 'uint_value' : 'int_value'], value);
  });
}

/*
 * Conversion of wall-clock time to trace time. Trace time is the boot clock, which nobody can set, so an event's trace
 * time depends on the wall-clock step that applied. If the wall clock showed the same time twice, the earlier step is
 * used. The boot clock restarts at a reboot; therefore, the distance between events of two agents is taken from the
 * wall clock.
 */

interface TraceClock {
  /** Returns wall clock minus trace time in nanoseconds at a wall-clock time. */
  findOffsetNs(wallNs: bigint): bigint;
  /** Snapshots of both clocks, each taken at one moment. */
  readonly readings: readonly { wallNs: bigint; traceNs: bigint }[];
}

/**
 * Creates the clock. `firstNs` is the start of the first event. If there are no steps, or if the steps place this event
 * before the boot and are therefore ignored, trace time is the wall clock.
 */
function createTraceClock(steps: readonly ClockStep[], firstNs: bigint): TraceClock {
  const spans = buildClockSpans(steps);
  const offsets = computeOffsetsNs(steps);
  const findOffsetNs = (wallNs: bigint) => offsets[findSpanIndex(spans, wallNs)] ?? 0n;
  const firstOffsetNs = findOffsetNs(firstNs);
  if (firstOffsetNs > firstNs) return createTraceClock([], firstNs);
  const later = spans.map(({ fromNs }, i) => ({ wallNs: fromNs, traceNs: fromNs - offsets[i]! }));
  const first = { wallNs: firstNs, traceNs: firstNs - firstOffsetNs };
  return { findOffsetNs, readings: [first, ...later.filter(({ traceNs }) => traceNs > first.traceNs)] };
}

/**
 * Returns wall clock minus trace time for each step. A step that sets the wall clock changes this difference. A step
 * that marks the start of an agent does not.
 */
function computeOffsetsNs(steps: readonly ClockStep[]): bigint[] {
  let offsetNs = steps[0]?.offsetNs ?? 0n;
  return steps.map((step, i) => {
    if (i > 0 && step.kind !== 'start') offsetNs += step.offsetNs - steps[i - 1]!.offsetNs;
    return offsetNs;
  });
}

/**
 * Returns the index of the step that applies at a wall-clock time. For a time that the clock skipped, the step before
 * it is used; for a time before all steps, the first step is used.
 */
function findSpanIndex(spans: readonly ClockSpan[], wallNs: bigint): number {
  const covering = spans.findIndex(({ fromNs, toNs }) => fromNs <= wallNs && (toNs === undefined || wallNs < toNs));
  return covering >= 0
    ? covering
    : Math.max(
        0,
        spans.findLastIndex(({ fromNs }) => fromNs <= wallNs),
      );
}
