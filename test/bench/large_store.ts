/** Makes large stores of synthetic events and keeps them for later runs: they take minutes to write. */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runStore } from './store.ts';
import type { WriteCost, WriteRequest } from './store_process.ts';
import type { SideName } from './store_sides.ts';

export interface LargeStore extends WriteCost {
  path: string;
}

interface Kept {
  sources: string;
  request: WriteRequest;
  cost: WriteCost;
}

/** Returns the kept store, or writes one. */
export async function largeStore(
  side: SideName,
  shape: Omit<WriteRequest, 'path'>,
  buildFolder: string,
  signal: AbortSignal,
): Promise<LargeStore> {
  const folder = join(buildFolder, `${side}_${shape.events}`);
  const [path, factsPath] = [join(folder, 'store'), join(folder, 'written.json')];
  const request = { path, ...shape };
  const sources = sourcesHash();
  const kept = readKept(factsPath);
  if (kept?.sources === sources && JSON.stringify(kept.request) === JSON.stringify(request))
    return { path, ...kept.cost };
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const cost = await runStore(side, 'write', request, signal);
  // The facts are written last: without them the store counts as incomplete.
  writeFileSync(factsPath, `${JSON.stringify({ sources, request, cost } satisfies Kept, null, 2)}\n`);
  return { path, ...cost };
}

function readKept(path: string): Kept | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

const ROOT = join(import.meta.dirname, '../..');
const FOLDERS = ['agent/recording', 'bpf/schema'];
const FILES = ['event_stream.ts', 'stream_columns.ts', 'kreplay_store.ts', 'row_store.ts'];

/** Hash of the code that writes: a store written by other code is not measured. */
function sourcesHash(): string {
  const found = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(ROOT, folder, file)),
  );
  const own = FILES.map((file) => join(import.meta.dirname, file));
  const hash = createHash('sha256');
  for (const file of [...found.sort(), ...own]) hash.update(readFileSync(file));
  return hash.digest('hex');
}
