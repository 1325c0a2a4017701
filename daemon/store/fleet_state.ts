/**
 * The state of a fleet for metrics and health checks. It has sums over all nodes, so its size does not depend on the
 * number of nodes.
 */

/** A node whose last contact is longer ago than this is silent: a node reports itself every half minute. */
export const NODE_SILENT_NS = 60_000_000_000n;
/** A node that has been silent for this long counts as gone, because hosts come and go. */
export const NODE_GONE_NS = 3_600_000_000_000n;

/**
 * `current`: the last contact was within the last minute. `silent`: the last contact was earlier. `ended`: the agent
 * has ended and all its events have arrived, or the node has been silent for an hour.
 */
export interface NodeCounts {
  current: number;
  silent: number;
  ended: number;
}

export const LAG_QUANTILES = ['0.5', '0.9', '0.99', '1'] as const;

export interface FleetNodes {
  counts: NodeCounts;
  /** Lag of the current nodes in nanoseconds, for each quantile; empty if there are no current nodes. */
  lagNs: bigint[];
}

export interface FleetState {
  /** Counts and lag of the nodes; undefined if a shard does not answer. */
  nodes: FleetNodes | undefined;
  /** 1 if at least one shard does not answer, otherwise 0. */
  unavailableShards: number;
  /** Largest number of parts in one partition of a table, on the server that answers. */
  partsMax: number;
  /** Start of the oldest hour that has events, on the server that answers. */
  oldestNs: bigint | undefined;
  /**
   * Free share of the fullest disk of the server that answers; undefined if the server's version does not report disks.
   */
  diskFreeRatio: number | undefined;
}

/** The clock of a node, as the node's shipper last measured it against a server. */
export interface MeasuredClock {
  node: string;
  /** Difference of the clocks: the server's time minus the node's time. */
  offsetNs: bigint;
  /** Maximum error of the offset; 0 if it was never measured. */
  uncertaintyNs: bigint;
}

/** Nodes whose events an answer may lack. */
export interface AwayNodes {
  /** Nodes that are known to be on a shard that was unavailable. */
  away: readonly string[];
  /** Nodes on the shards that answer. */
  present: ReadonlySet<string>;
  /** Whether the daemon knew all nodes before a shard became unavailable. */
  knowsAll: boolean;
}

/** Detects whether statements that run during the watch leave out shards that are not available. */
export interface ShardWatch {
  /** Whether a shard has been left out since the watch began. */
  isPartial(): boolean;
  /**
   * Finds the nodes whose events may be missing; undefined if no shard was left out. Rejects with a Problem if the
   * server does not answer.
   */
  findAwayNodes(): Promise<AwayNodes | undefined>;
}

/** The health of a fleet. All methods reject with a Problem if the server does not answer. */
export interface FleetHealth {
  /** Counts the nodes. Also rejects if a shard does not answer. */
  countNodes(): Promise<FleetNodes>;
  readState(): Promise<FleetState>;
  /** Reads the clocks of these nodes, except nodes that never reported to the fleet. */
  readClocks(nodes: readonly string[]): Promise<MeasuredClock[]>;
  /** Begins a watch; returns undefined for a fleet without shards. */
  watchShards(): ShardWatch | undefined;
}
