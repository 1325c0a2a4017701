/** The report that an agent sends to every client of its socket: one JSON object, after which the connection ends. */

/** Name of the socket in the data folder, next to the recording. */
export const AGENT_SOCKET = 'agent.sock';

export interface AgentReport {
  node: string;
  /** Seconds since the epoch. All counts below started at 0 at this time. */
  start_time_seconds: number;
  /** CPU time of all threads. */
  cpu_seconds: number;
  resident_bytes: number;
  /** Reason why writing the recording fails at the moment; the agent tries again. Older agents do not report it. */
  failure?: string | null | undefined;
  /**
   * Age of the oldest commit that is not known to be on the disk: a loss of power would lose everything committed since
   * then.
   */
  unsynced_seconds?: number | undefined;
  /** The event rings. */
  ring: {
    /** Number of rings. */
    count: number;
    /** Size of each ring. */
    size_bytes: number;
    /** Number of bytes that are waiting now in the fullest ring. */
    pending_bytes: number;
    /** Maximum number of bytes that were waiting in one ring within the last minute or two. */
    peak_bytes: number;
  };
  /** Number of events in the recording, by type. */
  recorded: Record<string, number>;
  /** Losses that are noted in the recording; the type is null if it is unknown. */
  lost: { cause: string; event_type: string | null; count: number }[];
  /** Durations of commits. */
  commits: {
    /** Upper bounds of the buckets; one more bucket counts longer durations. */
    bounds_seconds: number[];
    counts: number[];
    sum_seconds: number;
  };
}
