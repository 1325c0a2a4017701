/**
 * The nodes of a fleet as they were last known, beside the stored sessions: a daemon that starts while a shard is away
 * names those that are missing. The file is only a memory, so one that cannot be read or written does no harm.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';

export interface NodesFile {
  path: string;
  /** Names the fleet: what is known of another one is not used. */
  fleet: string;
}

/** How many shards have each recording of each node. */
export type RecordingCounts = Map<string, Map<bigint, number>>;

interface Written {
  fleet: string;
  nodes: Record<string, [recording: string, count: number][]>;
}

/** Returns undefined if there is nothing that can be used. */
export function readNodes({ path, fleet }: NodesFile): RecordingCounts | undefined {
  try {
    const written = JSON.parse(readFileSync(path, 'utf8')) as Written;
    if (written.fleet !== fleet) return undefined;
    const countsOf = (own: Written['nodes'][string]) =>
      new Map(own.map(([recording, count]) => [BigInt(recording), Number(count)] as const));
    return new Map(Object.entries(written.nodes).map(([node, own]) => [node, countsOf(own)]));
  } catch {
    return undefined;
  }
}

export function writeNodes({ path, fleet }: NodesFile, known: RecordingCounts): void {
  const entries = [...known].map(([node, counts]) => [node, [...counts].map(([id, count]) => [String(id), count])]);
  const text = JSON.stringify({ fleet, nodes: Object.fromEntries(entries) });
  try {
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // The next change is written again.
  }
}
