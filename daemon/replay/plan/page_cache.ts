/** An LRU cache of pages that all plans share. */

export interface PageCache<Page> {
  /** Returns a page of an owner; `make` reads it when it is not cached. */
  get(owner: object, number: number, make: () => Page): Page;
  forget(owner: object): void;
}

export function createPageCache<Page>(pagesMax: number): PageCache<Page> {
  const owners = new Map<object, Map<number, Entry<Page>>>();
  /** Entries in order of use; the least recently used is the first. */
  const byUse = new Set<Entry<Page>>();

  function drop(entry: Entry<Page>): void {
    byUse.delete(entry);
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
      if (entry) byUse.delete(entry);
      else {
        entry = { number, siblings, page: make() };
        siblings.set(number, entry);
      }
      byUse.add(entry);
      for (const oldest of byUse) {
        if (byUse.size <= pagesMax) break;
        drop(oldest);
      }
      return entry.page;
    },
    forget(owner) {
      for (const entry of owners.get(owner)?.values() ?? []) byUse.delete(entry);
      owners.delete(owner);
    },
  };
}

interface Entry<Page> {
  number: number;
  siblings: Map<number, Entry<Page>>;
  page: Page;
}
