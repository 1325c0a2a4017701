/** What a fleet says of itself, for metrics and health checks: sums over all nodes, however many there are. */

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
  /** How far behind the current nodes are, in nanoseconds, for each quantile; empty without current nodes. */
  lagNs: bigint[];
}

export interface FleetState {
  /** Undefined if a shard does not answer. */
  nodes: FleetNodes | undefined;
  /** At least so many shards do not answer. */
  unavailableShards: number;
  /** The most parts that a partition of a table has at the server that answers. */
  partsMax: number;
  /** Start of the oldest hour with events at the server that answers. */
  oldestNs: bigint | undefined;
  /** Free part of the fullest disk of that server; undefined if its version does not say. */
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
  /** Nodes that the shards which answer have. */
  present: ReadonlySet<string>;
  /** Whether all nodes were known before a shard went away. */
  knowsAll: boolean;
}

/** Notes whether shards that are away are left out of the statements that follow. */
export interface ShardWatch {
  /** Whether one was, so far. */
  isPartial(): boolean;
  /** Resolves to undefined if none was. Rejects with a Problem if the server does not answer. */
  findAwayNodes(): Promise<AwayNodes | undefined>;
}

/** Methods reject with a Problem if the server does not answer. */
export interface FleetHealth {
  /** Rejects also if a shard does not answer. */
  countNodes(): Promise<FleetNodes>;
  readState(): Promise<FleetState>;
  /** The clocks of those of these nodes that the fleet has heard of. */
  readClocks(nodes: readonly string[]): Promise<MeasuredClock[]>;
  /** Undefined if there are no shards. */
  watchShards(): ShardWatch | undefined;
}
