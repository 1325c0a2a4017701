/** Assigns small ids to entries; new ones are written with the flush that first uses them. */

import { IDS_IN_USE_MAX } from '../format/ids.ts';
import { RecentMap } from '../recent_map.ts';
import type { NewEntries } from './batch.ts';

/**
 * Ids are renewed earlier than necessary, because events wait between getting their ids and being sealed with newer
 * ones.
 */
const RENEW_AFTER = IDS_IN_USE_MAX / 2;

/** The most new entries that wait for a flush; while the disk is full, further ones get id 0, unknown. */
const PENDING_MAX = 65_536;

export class Dictionary<Entry> {
  readonly #known: RecentMap<string, number>;
  #pending: Entry[] = [];
  #takenCount = 0;
  #nextId: number;

  /** `knownMax`: number of entries that are remembered; a forgotten one that comes back gets another id. */
  constructor(lastId: number, knownMax = IDS_IN_USE_MAX) {
    this.#nextId = lastId + 1;
    this.#known = new RecentMap(knownMax);
  }

  get nextId(): number {
    return this.#nextId;
  }

  /** Smaller ids must not be used any more: their entries need a new one. */
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

  /** Returns the new id of the key, or 0 when too many entries wait. */
  add(key: string, entry: Entry): number {
    if (this.#pending.length >= PENDING_MAX) return 0;
    const id = this.#nextId++;
    this.#known.set(key, id);
    this.#pending.push(entry);
    return id;
  }

  /** Returns the entries that are not committed; the next `committed` refers to these. */
  take(): NewEntries<Entry> {
    this.#takenCount = this.#pending.length;
    return { firstId: this.#nextId - this.#pending.length, entries: this.#pending.slice() };
  }

  committed(): void {
    this.#pending = this.#pending.slice(this.#takenCount);
    this.#takenCount = 0;
  }
}
