/** State of a fleet for metrics and health checks; it consists of sums over all nodes, however many nodes there are. */

/** A node whose last contact is longer ago than this is silent: a node reports itself every half minute. */
export const NODE_SILENT_NS = 60_000_000_000n;
/** A node that has been silent for this long counts as gone, because hosts come and go. */
export const NODE_GONE_NS = 3_600_000_000_000n;

/**
 * `current`: the last contact was within the last minute. `silent`: it was earlier. `ended`: the agent has ended and
 * all its events have arrived, or the node has been silent for an hour.
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
  /** Minimum number of shards that do not answer. */
  unavailableShards: number;
  /** Largest number of parts in one partition of a table, on the server that answers. */
  partsMax: number;
  /** Start of the oldest hour that has events, on the server that answers. */
  oldestNs: bigint | undefined;
  /** Free share of the fullest disk of that server; undefined if the server's version does not report disks. */
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
  /** Whether all nodes were known before a shard became unavailable. */
  knowsAll: boolean;
}

/** Watches whether later statements leave out unavailable shards. */
export interface ShardWatch {
  /** Whether a shard has been left out so far. */
  isPartial(): boolean;
  /** Resolves to undefined if no shard was left out. Rejects with a Problem if the server does not answer. */
  findAwayNodes(): Promise<AwayNodes | undefined>;
}

/** Methods reject with a Problem if the server does not answer. */
export interface FleetHealth {
  /** Also rejects if a shard does not answer. */
  countNodes(): Promise<FleetNodes>;
  readState(): Promise<FleetState>;
  /** Reads the clocks of these nodes, except nodes that never reported to the fleet. */
  readClocks(nodes: readonly string[]): Promise<MeasuredClock[]>;
  /** Returns undefined for a fleet without shards. */
  watchShards(): ShardWatch | undefined;
}
