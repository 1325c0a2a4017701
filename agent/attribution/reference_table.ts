/**
 * Definitions by the id that events carry. The table is bounded: when full, it drops the least recently used half. An
 * event that still refers to one of those has an unknown owner, file or process, never a wrong one.
 */
export interface ReferenceTable<T> {
  set(id: number, value: T): void;
  get(id: number): T | undefined;
  values(): Iterable<T>;
  readonly size: number;
}

/** Entries of the cache in front of the map: events of one moment refer to few definitions. A power of two. */
const SLOTS = 1024;

/** An id is a count in its high bits and a CPU in the low 12, see new_id() in kreplay.bpf.h; all CPUs count alike. */
function slotOf(id: number): number {
  const low = id | 0;
  return ((low >>> 12) + (low & 0xfff) * 509) & (SLOTS - 1);
}

interface Entry<T> {
  value: T;
  lastUse: number;
}

export function createReferenceTable<T>(capacity: number): ReferenceTable<T> {
  const entries = new Map<number, Entry<T>>();
  const slotIds = new Float64Array(SLOTS).fill(-1);
  const slotEntries = new Array<Entry<T> | undefined>(SLOTS).fill(undefined);
  let use = 0;

  function makeRoom(): void {
    const uses = [...entries.values()].map((entry) => entry.lastUse).sort((a, b) => a - b);
    const median = uses[uses.length >> 1]!;
    for (const [id, entry] of entries) if (entry.lastUse <= median) entries.delete(id);
    slotIds.fill(-1);
    slotEntries.fill(undefined);
  }

  /** Missing ids are cached, too. */
  function keep(id: number, entry: Entry<T> | undefined): void {
    const slot = slotOf(id);
    slotIds[slot] = id;
    slotEntries[slot] = entry;
  }

  return {
    set(id, value) {
      if (entries.size >= capacity) makeRoom();
      const entry = { value, lastUse: ++use };
      entries.set(id, entry);
      keep(id, entry);
    },
    get(id) {
      const slot = slotOf(id);
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
