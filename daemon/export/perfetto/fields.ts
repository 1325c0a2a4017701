/**
 * The protobuf field numbers of Perfetto's traces that the export uses (protos/perfetto/trace). Perfetto never changes
 * these numbers.
 */

export const TRACE = { packet: 1 } as const;

export const PACKET = {
  clock_snapshot: 6,
  timestamp: 8,
  trusted_packet_sequence_id: 10,
  track_event: 11,
  interned_data: 12,
  sequence_flags: 13,
  track_descriptor: 60,
} as const;

/** Values of TracePacket.SequenceFlags. */
export const INCREMENTAL_STATE_CLEARED = 1;
export const NEEDS_INCREMENTAL_STATE = 2;

export const CLOCK_SNAPSHOT = { clocks: 1, primary_trace_clock: 2 } as const;
export const CLOCK = { clock_id: 1, timestamp: 2 } as const;
export const BUILTIN_CLOCK = { realtime: 1, boottime: 6 } as const;

export const TRACK_DESCRIPTOR = { uuid: 1, name: 2, process: 3, thread: 4, parent_uuid: 5 } as const;
export const PROCESS_DESCRIPTOR = { pid: 1, process_name: 6 } as const;
export const THREAD_DESCRIPTOR = { pid: 1, tid: 2, thread_name: 5 } as const;

export const TRACK_EVENT = {
  category_iids: 3,
  debug_annotations: 4,
  type: 9,
  name_iid: 10,
  track_uuid: 11,
  flow_ids: 47,
} as const;
export const SLICE_BEGIN = 1;
export const SLICE_END = 2;

export const DEBUG_ANNOTATION = { name_iid: 1, uint_value: 3, int_value: 4, string_value: 6 } as const;

export const INTERNED_DATA = { event_categories: 1, event_names: 2, debug_annotation_names: 3 } as const;
/** Fields of EventCategory, EventName and DebugAnnotationName. */
export const INTERNED = { iid: 1, name: 2 } as const;
