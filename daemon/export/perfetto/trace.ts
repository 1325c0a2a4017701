/**
 * A trace for Perfetto (https://ui.perfetto.dev). An event is a slice whose arguments are its fields, and a flow leads
 * from each event of a transaction to the next.
 *
 * Perfetto uses the boot clock and shows the wall clock by snapshots of both, one for each step of the wall clock.
 */

import { createHash } from 'node:crypto';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { I64_MAX, max } from '../../base/bigints.ts';
import { eventPieces } from '../../store/blocks/event.ts';
import type { Encoder, Surroundings } from '../encoder.ts';
import type { Loss } from '../source.ts';
import * as proto from './fields.ts';
import { newMessageWriter } from './messages.ts';
import { LOSS_CATEGORY, LOST_EVENTS, sliceName } from './names.ts';
import { writeArgument, writeArguments, writeClocks, writeInternedNames, writeNames, writeTrack } from './packets.ts';
import { newTraceClock } from './trace_clock.ts';
import { newTracks } from './tracks.ts';

/** Any number but zero will do: all packets are of one sequence. */
const SEQUENCE_ID = 1;

/** The largest time: Perfetto's times are signed. */
const TIME_NS_MAX = I64_MAX;

export function perfettoEncoder({ dictionary, firstNs, losses, clockSteps }: Surroundings): Encoder {
  const writer = newMessageWriter();
  const clock = newTraceClock(clockSteps, firstNs);
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

  function edge(type: number, traceNs: bigint, trackUuid: bigint, write: () => void): void {
    packet(() => {
      writer.integer(proto.PACKET.sequence_flags, proto.NEEDS_INCREMENTAL_STATE);
      writer.integer(proto.PACKET.timestamp, traceNs > TIME_NS_MAX ? TIME_NS_MAX : traceNs);
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

  /** Converts to trace time; no time is before the boot. */
  function fromBoot(wallNs: bigint): bigint {
    return max(0n, wallNs - clock.offsetAt(wallNs));
  }

  function writeEvent(event: ApiEvent): void {
    const { timestamp_ns: wallNs, duration_ns: durationNs, transaction_id: transactionId } = event;
    const startNs = fromBoot(wallNs);
    const endNs = startNs + durationNs;
    slice(startNs, endNs, tracks.ofEvent(event, startNs, endNs), () => {
      writeNames(writer, event.event_type, sliceName(event));
      if (transactionId !== null) writer.fixed64(proto.TRACK_EVENT.flow_ids, flowOf(transactionId));
      writeArguments(writer, event);
    });
  }

  function writeLoss({ fromNs, toNs, cause, count }: Loss): void {
    const startNs = fromBoot(fromNs);
    const endNs = max(startNs, fromBoot(toNs));
    slice(startNs, endNs, tracks.named('lost events', startNs, endNs), () => {
      writeNames(writer, LOSS_CATEGORY, cause);
      writeArgument(writer, LOST_EVENTS, 'unsigned', count);
    });
  }

  return {
    head() {
      for (const { traceNs, wallNs } of clock.readings)
        packet(() => writer.message(proto.PACKET.clock_snapshot, () => writeClocks(writer, traceNs, wallNs)));
      packet(() => {
        const flags = proto.INCREMENTAL_STATE_CLEARED | proto.NEEDS_INCREMENTAL_STATE;
        writer.integer(proto.PACKET.sequence_flags, flags);
        writer.message(proto.PACKET.interned_data, () => writeInternedNames(writer));
      });
      return writer.take();
    },
    *pieces(scanned) {
      for (const events of eventPieces(scanned)) {
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

/** Neighbouring events mostly belong to one transaction, so its flow is cached. */
function newFlows(): (transactionId: string) => bigint {
  let last: string | undefined;
  let flow = 0n;
  return (transactionId) => {
    if (transactionId !== last) flow = createHash('sha256').update(transactionId).digest().readBigUInt64LE();
    last = transactionId;
    return flow;
  };
}
