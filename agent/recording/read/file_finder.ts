/**
 * Finds files by path. Paths are not indexed, so the finder caches the ids that it found, and matches each file only
 * once with each list of patterns.
 */
import type Database from 'better-sqlite3';
import { createPathTest } from '../../../daemon/base/file_pattern.ts';

const OLDEST = 'SELECT coalesce(min(file_id), 0) FROM file';

/** Number of files that a step reads, which takes about 10 ms. */
const FILES_A_STEP = 16_384;
const NEXT = `SELECT file_id, path FROM file WHERE file_id > ? ORDER BY file_id LIMIT ${FILES_A_STEP}`;

/** Maximum number of pattern lists that are cached. It exceeds the maximum number of live tails. */
const LISTS_MAX = 512;
/** Maximum number of cached ids in all lists together (32 MiB). The most recently used list is always kept. */
const IDS_MAX = 8_388_608;
const ID_BYTES = 4;

export interface FileFinder {
  /**
   * Returns the ids of all files that match one of the patterns, in ascending order. Callers must not change the array.
   */
  find(patterns: readonly string[]): Uint32Array;
  /** Does the work of a later `find` in steps, and yields after each step. */
  findInSteps(patterns: readonly string[]): Generator<void, void>;
}

export function createFileFinder(database: Database.Database, { idsMax = IDS_MAX } = {}): FileFinder {
  const next = database.prepare<[number], [number, string]>(NEXT).raw();
  const oldest = database.prepare<[], number>(OLDEST).pluck();
  /** Cached lists in the order of their last use, the most recent last. */
  const known = new Map<string, FoundFiles>();

  function findOrCreateList(patterns: readonly string[]): FoundFiles {
    const key = JSON.stringify([...new Set(patterns)].sort());
    const found = known.get(key) ?? createFoundFiles(key, patterns, () => oldest.get()!);
    keep(found);
    return found;
  }

  /**
   * Marks a list as the most recently used. Also restores a list that was dropped from the cache between two of its
   * steps.
   */
  function keep(found: FoundFiles): void {
    known.delete(found.key);
    known.set(found.key, found);
    forget();
  }

  /** Checks the next files; returns whether there may be more files. */
  function step(found: FoundFiles): boolean {
    const files = next.all(found.last);
    if (files.length === 0) return false;
    found.add(files);
    keep(found);
    return files.length === FILES_A_STEP;
  }

  function forget(): void {
    let ids = 0;
    for (const { size } of known.values()) ids += size;
    for (const [key, { size }] of known) {
      if (known.size === 1 || (ids <= idsMax && known.size <= LISTS_MAX)) return;
      known.delete(key);
      ids -= size;
    }
  }

  return {
    find(patterns) {
      const found = findOrCreateList(patterns);
      while (step(found));
      return found.ids();
    },
    *findInSteps(patterns) {
      const found = findOrCreateList(patterns);
      while (step(found)) yield;
    },
  };
}

interface FoundFiles {
  readonly key: string;
  /** Id of the last file that was checked. */
  readonly last: number;
  /** Memory for the ids and patterns, in units of one id. */
  readonly size: number;
  add(files: readonly (readonly [id: number, path: string])[]): void;
  ids(): Uint32Array;
}

/**
 * Creates a cached list. `oldest` returns the id of the oldest file in the recording. Smaller ids are dropped when the
 * array is full.
 */
function createFoundFiles(key: string, patterns: readonly string[], oldest: () => number): FoundFiles {
  const isWanted = createPathTest(patterns);
  let ids = new Uint32Array(16);
  let count = 0;
  let last = 0;

  /** Copies the ids to a new array; callers may still use the old array. */
  function makeRoom(): void {
    const first = oldest();
    const left = ids.subarray(0, count).filter((id) => id >= first);
    ids = new Uint32Array(Math.max(16, left.length * 2));
    ids.set(left);
    count = left.length;
  }

  return {
    key,
    get last() {
      return last;
    },
    get size() {
      return ids.length + Math.ceil(key.length / ID_BYTES);
    },
    add(files) {
      for (const [id, path] of files) {
        last = id;
        if (!isWanted(path)) continue;
        if (count === ids.length) makeRoom();
        ids[count++] = id;
      }
    },
    ids: () => ids.subarray(0, count),
  };
}
