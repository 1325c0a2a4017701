/** The target of a seek, given in exactly one of these forms. */
export type SeekTarget =
  | { position_ns: bigint }
  | { timestamp_ns: bigint }
  | { event_id: string }
  | { event_index: bigint };
