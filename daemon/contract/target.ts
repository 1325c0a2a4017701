/** The target of a seek, given in exactly one of these forms. */
export type SeekTarget =
  | { position_ns: bigint }
  | { timestamp_ns: bigint }
  | { event_id: string }
  | { event_index: bigint };

/** The target of a seek, in the forms that the clients in this repository send. */
export type SentSeekTarget = { position_ns: bigint } | { event_index: number } | { event_id: string };
