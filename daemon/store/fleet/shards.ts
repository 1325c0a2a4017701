/** What a fleet's readers get while a shard is away, and which nodes they lack then. */
import type { ShardWatch } from '../fleet_state.ts';
import { type Fleet, withFleetErrors } from './fleet.ts';
import { type KnownRecording, nodesIn, recordingsIn } from './fleet_info.ts';
import { knownNodes } from './known_nodes.ts';
import type { NodesFile } from './nodes_file.ts';
import { partialReads } from './partial_reads.ts';

export interface Shards {
  /** Its statements may lack rows of shards that are away. */
  reading: Fleet;
  watch(): ShardWatch | undefined;
  /** Notes which recordings a read of these nodes, or of all, finds. */
  noting<Found extends KnownRecording>(
    nodes: readonly string[] | undefined,
    read: () => Promise<Found[]>,
  ): Promise<Found[]>;
  /** All nodes, also those that are known to be away. */
  nodes(): Promise<string[]>;
}

/** `nodesFile`: where nodes are kept between two starts. */
export function shardsOf(fleet: Fleet, nodesFile?: NodesFile): Shards {
  if (!fleet.isCluster)
    return { reading: fleet, watch: () => undefined, noting: (_, read) => read(), nodes: () => nodesIn(fleet) };
  const reads = partialReads(fleet);
  const reading = { ...fleet, connection: reads.connection };
  const known = knownNodes(nodesFile);
  /** The last episode in which something of a node was away: until its end, a node that comes and goes is. */
  const lastAway = new Map<string, number>();

  async function noting<Found extends KnownRecording>(
    nodes: readonly string[] | undefined,
    read: () => Promise<Found[]>,
  ): Promise<Found[]> {
    const [count, episode] = [reads.count(), reads.episode()];
    const found = await read();
    if (reads.count() === count) known.learn(found, nodes);
    else for (const node of known.compare(found, nodes)) lastAway.set(node, Math.max(episode, lastAway.get(node) ?? 0));
    return found;
  }

  function watch(): ShardWatch {
    const [count, episode] = [reads.count(), reads.episode()];
    const isPartial = () => reads.count() !== count;
    return {
      isPartial,
      away: () =>
        withFleetErrors(async () => {
          if (!isPartial()) return undefined;
          const found = await noting(undefined, () => recordingsIn(reading));
          return {
            away: [...lastAway].filter(([, last]) => last >= episode).map(([node]) => node),
            present: new Set(found.map(({ node }) => node)),
            knowsAll: known.isWhole(),
          };
        }),
    };
  }

  return {
    reading,
    watch,
    noting,
    async nodes() {
      const count = reads.count();
      const found = await nodesIn(reading);
      return reads.count() === count ? found : [...new Set([...found, ...known.names()])].sort();
    },
  };
}
