/** Gives things small ids; new ones are written with the flush that first uses them. */

import { IDS_IN_USE_MAX } from '../format/ids.ts';
import { RecentMap } from '../recent_map.ts';
import type { NewEntries } from './batch.ts';

/** Earlier than that, because events wait between getting their ids and being sealed with newer ones. */
const RENEW_AFTER = IDS_IN_USE_MAX / 2;

/** New entries that wait for a flush; further ones become id 0, unknown, while the disk is full. */
const PENDING_MAX = 65_536;

export class Dictionary<Entry> {
  readonly #known: RecentMap<string, number>;
  #pending: Entry[] = [];
  #takenCount = 0;
  #nextId: number;

  /** `knownMax`: entries that are remembered; a forgotten one that comes back gets another id. */
  constructor(lastId: number, knownMax = IDS_IN_USE_MAX) {
    this.#nextId = lastId + 1;
    this.#known = new RecentMap(knownMax);
  }

  get nextId(): number {
    return this.#nextId;
  }

  /** Whoever keeps an id that is below asks for another one. */
  get oldestUsable(): number {
    return Math.max(1, this.#nextId - RENEW_AFTER);
  }

  remember(key: string, id: number): void {
    this.#known.set(key, id);
  }

  find(key: string): number | undefined {
    const id = this.#known.get(key);
    return id !== undefined && id >= this.oldestUsable ? id : undefined;
  }

  /** The key's new id, or 0 when too many wait. */
  add(key: string, entry: Entry): number {
    if (this.#pending.length >= PENDING_MAX) return 0;
    const id = this.#nextId++;
    this.#known.set(key, id);
    this.#pending.push(entry);
    return id;
  }

  /** Entries that are not committed; the next `committed` is about these. */
  take(): NewEntries<Entry> {
    this.#takenCount = this.#pending.length;
    return { firstId: this.#nextId - this.#pending.length, entries: this.#pending.slice() };
  }

  committed(): void {
    this.#pending = this.#pending.slice(this.#takenCount);
    this.#takenCount = 0;
  }
}
