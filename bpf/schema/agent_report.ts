/** What an agent tells of itself to whoever connects to its socket: one JSON object, and the connection ends. */

/** In the data folder, beside the recording. */
export const AGENT_SOCKET = 'agent.sock';

export interface AgentReport {
  node: string;
  /** Since the epoch. Every count below began at 0 then. */
  start_time_seconds: number;
  /** CPU time of all threads. */
  cpu_seconds: number;
  resident_bytes: number;
  /** Why the recording cannot be written just now; it is tried again. Agents of before do not say. */
  failure?: string | null | undefined;
  ring: {
    size_bytes: number;
    /** Waiting just now. */
    pending_bytes: number;
    /** The most that waited within the last minute, or two. */
    peak_bytes: number;
  };
  /** Events that are in the recording, by type. */
  recorded: Record<string, number>;
  /** What the recording notes as lost; the type is null when it is not known. */
  lost: { cause: string; event_type: string | null; count: number }[];
  /** How long commits took. */
  commits: {
    /** Upper bounds of the buckets; one more bucket takes what is longer. */
    bounds_seconds: number[];
    counts: number[];
    sum_seconds: number;
  };
}
