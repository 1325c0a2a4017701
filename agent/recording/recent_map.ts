/**
 * A map that forgets entries that were not used for long. It has two generations; the older one is dropped when the
 * younger one is full.
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
