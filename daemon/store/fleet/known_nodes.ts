/**
 * Remembers the recordings of each node, in order to name the nodes of an unavailable shard. For each recording, the
 * shards that have it are counted: if a node moves to another shard, both shards have a part of its recording.
 */

import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { KnownRecording } from './fleet_info.ts';

export interface KnownNodes {
  /** Stores the recordings of these nodes, or of all nodes, that were found while all shards answered. */
  learn(found: readonly KnownRecording[], nodes: readonly string[] | undefined): void;
  /**
   * Adds `found`, the recordings on the available shards, to the known recordings. Returns each of these nodes, or of
   * all nodes, that has a known recording on fewer shards than before.
   */
  compare(found: readonly KnownRecording[], nodes: readonly string[] | undefined): string[];
  names(): string[];
  /** Whether all nodes are known. */
  isWhole(): boolean;
}

export function createKnownNodes(file?: NodesFile): KnownNodes {
  const before = file && readNodes(file);
  const known: RecordingCounts = before ?? new Map();
  let isWhole = before !== undefined;

  return {
    learn(found, nodes) {
      const counted = countRecordings(found);
      let isNew = !isWhole && nodes === undefined;
      for (const node of nodes ?? [...known.keys()]) if (!counted.has(node)) isNew = known.delete(node) || isNew;
      for (const [node, counts] of counted) {
        isNew ||= !areEqual(known.get(node), counts);
        known.set(node, counts);
      }
      isWhole ||= nodes === undefined;
      if (file && isNew && isWhole) writeNodes(file, known);
    },
    compare(found, nodes) {
      const counted = countRecordings(found);
      for (const [node, counts] of counted) known.set(node, mergeMaxCounts(known.get(node), counts));
      return (nodes ?? [...known.keys()]).filter((node) =>
        [...(known.get(node) ?? [])].some(([recording, count]) => (counted.get(node)?.get(recording) ?? 0) < count),
      );
    },
    names: () => [...known.keys()],
    isWhole: () => isWhole,
  };
}

type CountsByRecording = ReadonlyMap<bigint, number>;

function countRecordings(found: readonly KnownRecording[]): RecordingCounts {
  const byNode: RecordingCounts = new Map();
  for (const { node, recording } of found) {
    const counts = byNode.get(node) ?? new Map<bigint, number>();
    counts.set(recording, (counts.get(recording) ?? 0) + 1);
    byNode.set(node, counts);
  }
  return byNode;
}

function areEqual(before: CountsByRecording | undefined, counts: CountsByRecording): boolean {
  return before?.size === counts.size && [...counts].every(([recording, count]) => before.get(recording) === count);
}

function mergeMaxCounts(before: CountsByRecording = new Map(), counts: CountsByRecording): Map<bigint, number> {
  const most = new Map(before);
  for (const [recording, count] of counts) most.set(recording, Math.max(count, most.get(recording) ?? 0));
  return most;
}

/*
 * Keeps the last known nodes of a fleet in a file next to the stored sessions. Thus a daemon that starts while a shard
 * is unavailable can name the missing nodes. If the file cannot be read or written, the daemon works without it.
 */

export interface NodesFile {
  path: string;
  /** Identifies the fleet, because a file with the nodes of another fleet must not be used. */
  fleet: string;
}

/** Maps each node, and each of its recordings, to the number of shards that have the recording. */
type RecordingCounts = Map<string, Map<bigint, number>>;

interface Written {
  fleet: string;
  nodes: Record<string, [recording: string, count: number][]>;
}

/** Reads the nodes from the file; returns undefined if there is no usable file. */
function readNodes({ path, fleet }: NodesFile): RecordingCounts | undefined {
  try {
    const written = JSON.parse(readFileSync(path, 'utf8')) as Written;
    if (written.fleet !== fleet) return undefined;
    const parseCounts = (own: Written['nodes'][string]) =>
      new Map(own.map(([recording, count]) => [BigInt(recording), Number(count)] as const));
    return new Map(Object.entries(written.nodes).map(([node, own]) => [node, parseCounts(own)]));
  } catch {
    return undefined;
  }
}

function writeNodes({ path, fleet }: NodesFile, known: RecordingCounts): void {
  const entries = [...known].map(([node, counts]) => [node, [...counts].map(([id, count]) => [String(id), count])]);
  const text = JSON.stringify({ fleet, nodes: Object.fromEntries(entries) });
  try {
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // The file is written again at the next change.
  }
}
