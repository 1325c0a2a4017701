/** What the rows of a block refer to, each once, in the order in which it was met. */
import { newTextTable, type TextTable } from '../../clickhouse/native/texts.ts';

export interface BlockEntries<Entry> {
  /** Entry 0 is what the id 0 stands for. */
  readonly entries: readonly Entry[];
  /** Forgets all entries, because another block follows. */
  clear(): void;
  /** Returns the place of the entry of an id. */
  placeOf(id: number): number;
  /** Returns the place of an entry that need not have an id. */
  placeOfEntry(entry: Entry): number;
  /** Sets `places[i]` to the place of the entry of `ids[i]`. */
  places(ids: Uint32Array, length: number, places: Uint32Array): void;
}

export interface EntrySource<Entry> {
  /** Returns what an id refers to. */
  find(id: number): Entry;
  /** Entries with equal keys share a place: a text may have several ids. */
  keyOf(entry: Entry): unknown;
  /** Called once for each entry, in the order of places. */
  add(entry: Entry): void;
  clear(): void;
}

/** Must be a power of two. */
const SEEN_SLOTS = 1024;

export function blockEntries<Entry>({ find, keyOf, add, clear }: EntrySource<Entry>): BlockEntries<Entry> {
  const byId = new Map<number, number>();
  const byKey = new Map<unknown, number>();
  const entries: Entry[] = [];
  /** Most ids occur many times: their places are here, in the slot of their lowest bits. */
  const seenIds = new Uint32Array(SEEN_SLOTS);
  const seenPlaces = new Uint32Array(SEEN_SLOTS);

  function placeOfEntry(entry: Entry): number {
    const key = keyOf(entry);
    const known = byKey.get(key);
    if (known !== undefined) return known;
    const place = entries.push(entry) - 1;
    byKey.set(key, place);
    add(entry);
    return place;
  }

  function search(id: number): number {
    const known = byId.get(id);
    if (known !== undefined) return known;
    const place = placeOfEntry(find(id));
    byId.set(id, place);
    return place;
  }

  function placeOf(id: number): number {
    if (id === 0) return 0;
    const slot = id & (SEEN_SLOTS - 1);
    if (seenIds[slot] !== id) {
      seenPlaces[slot] = search(id);
      seenIds[slot] = id;
    }
    return seenPlaces[slot]!;
  }

  function reset(): void {
    byId.clear();
    byKey.clear();
    entries.length = 0;
    seenIds.fill(0);
    clear();
    search(0);
  }

  reset();
  return {
    entries,
    clear: reset,
    placeOf,
    placeOfEntry,
    places(ids, length, places) {
      for (let i = 0; i < length; i++) places[i] = placeOf(ids[i]!);
    },
  };
}

/** Names as texts of a column. */
export interface NameTexts extends BlockEntries<string> {
  readonly table: TextTable;
}

export function nameTexts(nameOf: (id: number) => string): NameTexts {
  const table = newTextTable();
  const entries = blockEntries<string>({
    find: nameOf,
    keyOf: (text) => text,
    add: (text) => void table.add(text),
    clear: () => table.clear(),
  });
  return { ...entries, table };
}
