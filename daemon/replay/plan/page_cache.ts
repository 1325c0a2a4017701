/** An LRU cache of pages that all plans share; its limit is a number of pages, or of what `sizeOf` counts in them. */

export interface PageCache<Page> {
  /** Returns a page of an owner; `make` reads it when it is not cached. */
  get(owner: object, number: number, make: () => Page): Page;
  forget(owner: object): void;
}

export function createPageCache<Page>(sizeMax: number, sizeOf: (page: Page) => number = () => 1): PageCache<Page> {
  const owners = new Map<object, Map<number, Entry<Page>>>();
  /** Entries in order of use; the least recently used is the first. */
  const byUse = new Set<Entry<Page>>();

  let size = 0;

  function leave(entry: Entry<Page>): void {
    if (byUse.delete(entry)) size -= sizeOf(entry.page);
  }

  function drop(entry: Entry<Page>): void {
    leave(entry);
    entry.siblings.delete(entry.number);
  }

  return {
    get(owner, number, make) {
      let siblings = owners.get(owner);
      if (!siblings) {
        siblings = new Map();
        owners.set(owner, siblings);
      }
      let entry = siblings.get(number);
      if (entry) leave(entry);
      else {
        entry = { number, siblings, page: make() };
        siblings.set(number, entry);
      }
      byUse.add(entry);
      size += sizeOf(entry.page);
      for (const oldest of byUse) {
        if (size <= sizeMax || oldest === entry) break;
        drop(oldest);
      }
      return entry.page;
    },
    forget(owner) {
      for (const entry of owners.get(owner)?.values() ?? []) leave(entry);
      owners.delete(owner);
    },
  };
}

interface Entry<Page> {
  number: number;
  siblings: Map<number, Entry<Page>>;
  page: Page;
}
