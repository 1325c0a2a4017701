/**
 * Definitions by the number that events carry. Bounded: when full, half of it goes, the longest unused first. An event
 * that still refers to one of those is of unknown owner, file or process, never of a wrong one.
 */
export interface ReferenceTable<T> {
  set(id: number, value: T): void;
  get(id: number): T | undefined;
  values(): Iterable<T>;
  readonly size: number;
}

interface Entry<T> {
  value: T;
  lastUse: number;
}

export function createReferenceTable<T>(capacity: number): ReferenceTable<T> {
  const entries = new Map<number, Entry<T>>();
  let lastId = -1;
  let lastEntry: Entry<T> | undefined;
  let use = 0;

  function makeRoom(): void {
    const uses = [...entries.values()].map((entry) => entry.lastUse).sort((a, b) => a - b);
    const median = uses[uses.length >> 1]!;
    for (const [id, entry] of entries) if (entry.lastUse <= median) entries.delete(id);
    lastId = -1;
  }

  return {
    set(id, value) {
      if (entries.size >= capacity) makeRoom();
      entries.set(id, { value, lastUse: ++use });
      lastId = -1;
    },
    /** Neighbouring events mostly refer to the same thing, so the last answer is kept. */
    get(id) {
      if (id !== lastId) {
        lastId = id;
        lastEntry = entries.get(id);
      }
      if (lastEntry) lastEntry.lastUse = ++use;
      return lastEntry?.value;
    },
    *values() {
      for (const { value } of entries.values()) yield value;
    },
    get size() {
      return entries.size;
    },
  };
}
