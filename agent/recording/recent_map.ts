/**
 * A map that drops entries that have not been used recently. The map has two generations. When the younger one is full,
 * the map drops the older one.
 */
export class RecentMap<Key, Value> {
  readonly #generationSizeMax: number;
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();

  /** Keeps at least the `sizeMax / 2` entries that were used last, and never more than `sizeMax` entries. */
  constructor(sizeMax: number) {
    this.#generationSizeMax = sizeMax / 2;
  }

  get(key: Key): Value | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: Key, value: Value): void {
    if (this.#young.size >= this.#generationSizeMax) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }
}
