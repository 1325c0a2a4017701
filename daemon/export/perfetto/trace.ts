/**
 * A trace for Perfetto (https://ui.perfetto.dev). An event is a slice whose arguments are its fields, and a flow leads
 * from each event of a transaction to the next.
 *
 * Perfetto lives in the boot clock and shows the wall clock by snapshots of both. One snapshot is enough: the offset in
 * force at the first event is taken from all times, so that a clock that was set later moves no event.
 */
import { createHash } from 'node:crypto';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { Encoder, Surroundings } from '../format.ts';
import type { ClockStep, Loss } from '../source.ts';
import * as proto from './fields.ts';
import { newMessageWriter } from './messages.ts';
import { LOSS_CATEGORY, LOST_EVENTS, sliceName } from './names.ts';
import { writeArgument, writeArguments, writeClocks, writeInternedNames, writeNames, writeTrack } from './packets.ts';
import { newTracks } from './tracks.ts';

/** Any number but zero: all packets are of one sequence. */
const SEQUENCE_ID = 1;

/** Perfetto's times are signed. */
const TIME_NS_MAX = 2n ** 63n - 1n;

export function perfettoEncoder({ dictionary, firstNs, losses, clockSteps }: Surroundings): Encoder {
  const writer = newMessageWriter();
  const offsetNs = offsetAt(clockSteps, firstNs);
  const flowOf = newFlows();

  function packet(write: () => void): void {
    writer.message(proto.TRACE.packet, () => {
      writer.integer(proto.PACKET.trusted_packet_sequence_id, SEQUENCE_ID);
      write();
    });
  }

  const tracks = newTracks(dictionary.recordingId, (track) =>
    packet(() => writer.message(proto.PACKET.track_descriptor, () => writeTrack(writer, track))),
  );

  function edge(type: number, wallNs: bigint, trackUuid: bigint, write: () => void): void {
    packet(() => {
      const bootNs = wallNs - offsetNs;
      writer.integer(proto.PACKET.sequence_flags, proto.NEEDS_INCREMENTAL_STATE);
      writer.integer(proto.PACKET.timestamp, bootNs > TIME_NS_MAX ? TIME_NS_MAX : bootNs);
      writer.message(proto.PACKET.track_event, () => {
        writer.integer(proto.TRACK_EVENT.type, type);
        writer.integer(proto.TRACK_EVENT.track_uuid, trackUuid);
        write();
      });
    });
  }

  function slice(startNs: bigint, endNs: bigint, trackUuid: bigint, write: () => void): void {
    edge(proto.SLICE_BEGIN, startNs, trackUuid, write);
    edge(proto.SLICE_END, endNs, trackUuid, () => {});
  }

  function writeEvent(event: ApiEvent): void {
    const { timestamp_ns: startNs, duration_ns: durationNs, transaction_id: transactionId } = event;
    slice(startNs, startNs + durationNs, tracks.ofEvent(event), () => {
      writeNames(writer, event.event_type, sliceName(event));
      if (transactionId !== null) writer.fixed64(proto.TRACK_EVENT.flow_ids, flowOf(transactionId));
      writeArguments(writer, event);
    });
  }

  function writeLoss({ fromNs, toNs, cause, count }: Loss): void {
    const startNs = fromNs < offsetNs ? offsetNs : fromNs;
    const endNs = toNs < startNs ? startNs : toNs;
    slice(startNs, endNs, tracks.named('lost events', startNs, endNs), () => {
      writeNames(writer, LOSS_CATEGORY, cause);
      writeArgument(writer, LOST_EVENTS, 'unsigned', count);
    });
  }

  return {
    head() {
      packet(() => writer.message(proto.PACKET.clock_snapshot, () => writeClocks(writer, firstNs - offsetNs, firstNs)));
      packet(() => {
        const flags = proto.INCREMENTAL_STATE_CLEARED | proto.NEEDS_INCREMENTAL_STATE;
        writer.integer(proto.PACKET.sequence_flags, flags);
        writer.message(proto.PACKET.interned_data, () => writeInternedNames(writer));
      });
      return writer.take();
    },
    events(events) {
      for (const event of events) writeEvent(event);
      return writer.take();
    },
    tail() {
      for (const loss of losses()) writeLoss(loss);
      return writer.take();
    },
  };
}

/** Wall clock minus boot clock at `ns`; 0 when it is not known, or would lead to before the boot. */
function offsetAt(steps: readonly ClockStep[], ns: bigint): bigint {
  const step = steps.findLast(({ bootNs, offsetNs }) => bootNs + offsetNs <= ns) ?? steps[0];
  return step && step.offsetNs <= ns ? step.offsetNs : 0n;
}

/** Neighbours are mostly of one transaction. */
function newFlows(): (transactionId: string) => bigint {
  let last: string | undefined;
  let flow = 0n;
  return (transactionId) => {
    if (transactionId !== last) flow = createHash('sha256').update(transactionId).digest().readBigUInt64LE();
    last = transactionId;
    return flow;
  };
}
