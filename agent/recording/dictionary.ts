/** Gives things small ids; new ones are written with the flush that first uses them. */
import { RecentMap } from './recent_map.ts';

/** Ids that are remembered. Something forgotten gets another id: readers know that a text may have several. */
export const REMEMBERED_MAX = 65_536;

/** New entries that wait for a flush; further ones become id 0, unknown, while the disk is full. */
export const PENDING_MAX = 65_536;

export class Dictionary<Entry> {
  readonly #known = new RecentMap<string, number>(REMEMBERED_MAX);
  readonly #insert: (id: number, entry: Entry) => void;
  #pending: { id: number; entry: Entry }[] = [];
  #nextId: number;

  constructor(lastId: number, insert: (id: number, entry: Entry) => void) {
    this.#nextId = lastId + 1;
    this.#insert = insert;
  }

  remember(key: string, id: number): void {
    this.#known.set(key, id);
  }

  find(key: string): number | undefined {
    return this.#known.get(key);
  }

  /** The key's new id, or 0 when too many wait. */
  add(key: string, entry: Entry): number {
    if (this.#pending.length >= PENDING_MAX) return 0;
    const id = this.#nextId++;
    this.#known.set(key, id);
    this.#pending.push({ id, entry });
    return id;
  }

  get pendingCount(): number {
    return this.#pending.length;
  }

  /** Inside the flush's transaction; they stay pending until that has committed. */
  writePending(): void {
    for (const { id, entry } of this.#pending) this.#insert(id, entry);
  }

  committed(): void {
    this.#pending = [];
  }
}
