/** The report that an agent sends to every client of its socket: one JSON object, after which the connection ends. */

/** Name of the socket in the data folder, next to the recording. */
export const AGENT_SOCKET = 'agent.sock';

export interface AgentReport {
  node: string;
  /** Seconds since the epoch. Every count below started at 0 then. */
  start_time_seconds: number;
  /** CPU time of all threads. */
  cpu_seconds: number;
  resident_bytes: number;
  /** Why the recording cannot be written at the moment; the agent tries again. Older agents do not report it. */
  failure?: string | null | undefined;
  /** Age of the oldest commit that is not known to be on the disk: a loss of power takes what came since. */
  unsynced_seconds?: number | undefined;
  ring: {
    size_bytes: number;
    /** Bytes that wait at the moment. */
    pending_bytes: number;
    /** The most bytes that waited within the last minute or two. */
    peak_bytes: number;
  };
  /** Number of events in the recording, by type. */
  recorded: Record<string, number>;
  /** Losses that the recording notes; the type is null if it is unknown. */
  lost: { cause: string; event_type: string | null; count: number }[];
  /** Durations of commits. */
  commits: {
    /** Upper bounds of the buckets; one more bucket counts longer durations. */
    bounds_seconds: number[];
    counts: number[];
    sum_seconds: number;
  };
}
