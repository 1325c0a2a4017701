/** What was read last, of all plans together: the one used longest ago goes first. */

export interface PageCache<Page> {
  /** Of one owner; `make` reads it when it is not here. */
  get(owner: object, number: number, make: () => Page): Page;
  forget(owner: object): void;
}

export function createPageCache<Page>(pagesMax: number): PageCache<Page> {
  const owners = new Map<object, Map<number, Entry<Page>>>();
  /** The one used longest ago is the first. */
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
