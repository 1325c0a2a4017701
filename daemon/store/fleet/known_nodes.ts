/**
 * Remembers which recordings of which nodes the shards have, so that nodes can be named whose shard is away. How often a
 * recording was there counts: a node that has moved to another shard has left a part of it on the first.
 */
import type { KnownRecording } from './fleet_info.ts';

export interface KnownNodes {
  /** Notes what all shards have of these nodes, or of all nodes. */
  learn(found: readonly KnownRecording[], nodes: readonly string[] | undefined): void;
  /** Notes what some shards have, and returns the nodes among these, or all, of which they lack something. */
  compare(found: readonly KnownRecording[], nodes: readonly string[] | undefined): string[];
  names(): string[];
  /** Whether all nodes were learnt. */
  isWhole(): boolean;
}

type Counts = Map<bigint, number>;

export function knownNodes(): KnownNodes {
  const known = new Map<string, Counts>();
  let isWhole = false;

  return {
    learn(found, nodes) {
      const counted = countsOf(found);
      for (const node of nodes ?? [...known.keys()]) if (!counted.has(node)) known.delete(node);
      for (const [node, counts] of counted) known.set(node, counts);
      isWhole ||= nodes === undefined;
    },
    compare(found, nodes) {
      const counted = countsOf(found);
      for (const [node, counts] of counted) {
        const before = known.get(node) ?? new Map();
        for (const [recording, count] of counts) before.set(recording, Math.max(count, before.get(recording) ?? 0));
        known.set(node, before);
      }
      return (nodes ?? [...known.keys()]).filter((node) =>
        [...(known.get(node) ?? [])].some(([recording, count]) => (counted.get(node)?.get(recording) ?? 0) < count),
      );
    },
    names: () => [...known.keys()],
    isWhole: () => isWhole,
  };
}

function countsOf(found: readonly KnownRecording[]): Map<string, Counts> {
  const byNode = new Map<string, Counts>();
  for (const { node, recording } of found) {
    const counts = byNode.get(node) ?? new Map();
    counts.set(recording, (counts.get(recording) ?? 0) + 1);
    byNode.set(node, counts);
  }
  return byNode;
}
