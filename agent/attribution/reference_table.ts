/**
 * Maps the ids in events to definitions. When the table is full, half of the entries are dropped: the least recently
 * used entries of the largest shares. So a cgroup or user that creates definitions without end loses only its own
 * entries. An event that refers to a dropped definition has an unknown owner, file or process, never a wrong one.
 */
export interface ReferenceTable<T> {
  /** `share`: number of the cgroup or user that caused the definition; see current_share() of bpf/budget.bpf.h. */
  set(id: number, value: T, share?: number): void;
  get(id: number): T | undefined;
  values(): Iterable<T>;
  readonly size: number;
}

/**
 * Number of slots of the cache in front of the map, a power of two. The cache is small, because successive events refer
 * to few definitions.
 */
const SLOTS = 1024;

/**
 * Returns the cache slot of an id. The low 12 bits of an id are a CPU, and the high bits count that CPU's ids: see
 * new_id() in kreplay.bpf.h. CPUs have overlapping counts, so the CPU is part of the hash.
 */
function computeSlot(id: number): number {
  const low = id | 0;
  return ((low >>> 12) + (low & 0xfff) * 509) & (SLOTS - 1);
}

interface ReferenceEntry<T> {
  value: T;
  lastUse: number;
  share: number;
}

/** Returns how many entries each share may keep at most, so that all shares together keep at most `total`. */
function computeFairShare(counts: readonly number[], total: number): number {
  let left = total;
  const ascending = counts.toSorted((a, b) => a - b);
  for (const [i, count] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - i));
    if (count > share) return share;
    left -= count;
  }
  return total;
}

export function createReferenceTable<T>(capacity: number): ReferenceTable<T> {
  const entries = new Map<number, ReferenceEntry<T>>();
  const slotIds = new Float64Array(SLOTS).fill(-1);
  const slotEntries = new Array<ReferenceEntry<T> | undefined>(SLOTS).fill(undefined);
  let use = 0;

  function makeRoom(): void {
    const byShare = Map.groupBy(entries, ([, { share }]) => share);
    const counts = [...byShare.values()].map(({ length }) => length);
    const keptMax = computeFairShare(counts, (capacity - 1) >> 1);
    for (const own of byShare.values()) {
      if (own.length <= keptMax) continue;
      const oldest = own.sort(([, a], [, b]) => a.lastUse - b.lastUse).slice(0, own.length - keptMax);
      for (const [id] of oldest) entries.delete(id);
    }
    slotIds.fill(-1);
    slotEntries.fill(undefined);
  }

  /** Caches the entry of an id, or that the id has no entry. */
  function keep(id: number, entry: ReferenceEntry<T> | undefined): void {
    const slot = computeSlot(id);
    slotIds[slot] = id;
    slotEntries[slot] = entry;
  }

  return {
    set(id, value, share = 0) {
      if (entries.size >= capacity) makeRoom();
      const entry = { value, lastUse: ++use, share };
      entries.set(id, entry);
      keep(id, entry);
    },
    get(id) {
      const slot = computeSlot(id);
      if (slotIds[slot] !== id) keep(id, entries.get(id));
      const entry = slotEntries[slot];
      if (entry) entry.lastUse = ++use;
      return entry?.value;
    },
    *values() {
      for (const { value } of entries.values()) yield value;
    },
    get size() {
      return entries.size;
    },
  };
}
