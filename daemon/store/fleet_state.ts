/** State of a fleet for metrics and health checks: sums over all nodes, however many there are. */

/** A node that has not been heard for this long is silent: it reports itself every half minute. */
export const NODE_SILENT_NS = 60_000_000_000n;
/** A node that has been silent for this long is taken for gone: hosts come and go. */
export const NODE_GONE_NS = 3_600_000_000_000n;

/**
 * `current`: heard within a minute. `silent`: not heard since. `ended`: its agent has ended and all has arrived, or it
 * has been silent for an hour.
 */
export interface NodeCounts {
  current: number;
  silent: number;
  ended: number;
}

export const LAG_QUANTILES = ['0.5', '0.9', '0.99', '1'] as const;

export interface FleetNodes {
  counts: NodeCounts;
  /** Lag of the current nodes in nanoseconds, for each quantile; empty without current nodes. */
  lagNs: bigint[];
}

export interface FleetState {
  /** Undefined if a shard does not answer. */
  nodes: FleetNodes | undefined;
  /** Minimum number of shards that do not answer. */
  unavailableShards: number;
  /** Largest number of parts in one partition of a table, at the server that answers. */
  partsMax: number;
  /** Start of the oldest hour with events at the server that answers. */
  oldestNs: bigint | undefined;
  /** Free share of the fullest disk of that server; undefined if its version does not report disks. */
  diskFreeRatio: number | undefined;
}

/** A node's clock, as its shipper last measured it against a server. */
export interface MeasuredClock {
  node: string;
  /** The server's clock minus the node's. */
  offsetNs: bigint;
  /** How far the offset may be off; 0 if it was never measured. */
  uncertaintyNs: bigint;
}

/** Nodes whose events an answer may lack. */
export interface AwayNodes {
  /** Nodes that are known to be on a shard that was away. */
  away: readonly string[];
  /** Nodes on the shards that answer. */
  present: ReadonlySet<string>;
  /** Whether all nodes were known before a shard went away. */
  knowsAll: boolean;
}

/** Watches whether unavailable shards are left out of the statements that follow. */
export interface ShardWatch {
  /** Whether a shard was left out so far. */
  isPartial(): boolean;
  /** Resolves to undefined if no shard was left out. Rejects with a Problem if the server does not answer. */
  findAwayNodes(): Promise<AwayNodes | undefined>;
}

/** Methods reject with a Problem if the server does not answer. */
export interface FleetHealth {
  /** Rejects also if a shard does not answer. */
  countNodes(): Promise<FleetNodes>;
  readState(): Promise<FleetState>;
  /** Reads the clocks of these nodes, except nodes that the fleet has never heard of. */
  readClocks(nodes: readonly string[]): Promise<MeasuredClock[]>;
  /** Returns undefined for a fleet without shards. */
  watchShards(): ShardWatch | undefined;
}
