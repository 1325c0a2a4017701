/** The report that a shipper sends to every client of its socket: one JSON object, after which the connection ends. */

/** Name of the socket in the state folder, next to the position. */
export const SHIP_SOCKET = 'ship.sock';

/** Name of the file in the state folder that holds the position up to which a shipper has shipped. */
export const POSITION_FILE = 'position.json';

export interface ShipReport {
  /** The node whose recording is shipped; null until there is a recording. */
  node: string | null;
  /** Seconds since the epoch. Every count below started at 0 then. */
  start_time_seconds: number;
  /** Events that have arrived. */
  events: number;
  /** Events that were recorded and do not arrive: removed or damaged before they were sent. */
  unshipped: number;
  /** Bytes of rows as they were sent; rows that are sent again count again. */
  wire_bytes: number;
  /** Events that are sealed and have not arrived, and the age of the oldest one. */
  backlog: { events: number; seconds: number };
  /** Why nothing arrives at the moment. */
  trouble: { code: string; blocked: boolean; message: string } | null;
  /** Number of failures, by code. */
  retries: Record<string, number>;
  /** Durations of groups until they had arrived. */
  inserts: {
    /** Upper bounds of the buckets; one more bucket counts longer durations. */
    bounds_seconds: number[];
    counts: number[];
    sum_seconds: number;
  };
  /** Clock of the server minus clock of this node; null if it was not measured. */
  clock_offset_seconds: number | null;
}
