/** The report that a shipper sends to every client of its socket: one JSON object, after which the connection ends. */

/** Name of the socket in the state folder of a shipper. */
export const SHIP_SOCKET = 'ship.sock';

/** Name of the file in the state folder that contains the position up to which a shipper has shipped. */
export const POSITION_FILE = 'position.json';

export interface ShipReport {
  /** The node whose recording is shipped; null while there is no recording. */
  node: string | null;
  /** Seconds since the epoch. All counts below started at 0 at this time. */
  start_time_seconds: number;
  /** Number of events that have arrived. */
  events: number;
  /** Number of recorded events that will never arrive, because they were removed or damaged before they were sent. */
  unshipped: number;
  /** Number of row bytes as they were sent; rows that are sent again are counted again. */
  wire_bytes: number;
  /** Number of events that are sealed but have not arrived, and the age of the oldest of them. */
  backlog: { events: number; seconds: number };
  /** Reason why no events can arrive at the moment; null while shipping works, even if no events wait. */
  trouble: { code: string; blocked: boolean; message: string } | null;
  /** Number of failures, by code. */
  retries: Record<string, number>;
  /** Histogram of how long groups took to arrive. */
  inserts: {
    /** Upper bounds of the buckets; one more bucket counts longer durations. */
    bounds_seconds: number[];
    counts: number[];
    sum_seconds: number;
  };
  /** Clock of the server minus clock of this node; null if it was not measured. */
  clock_offset_seconds: number | null;
}
