/** Where a seek goes: exactly one of them. */
export type SeekTarget =
  | { position_ns: bigint }
  | { timestamp_ns: bigint }
  | { event_id: string }
  | { event_index: bigint };
