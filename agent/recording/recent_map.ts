/**
 * A map that forgets what was not used for long: of its two generations, the older is dropped when the younger is full.
 */
export class RecentMap<Key, Value> {
  readonly #generationSizeMax: number;
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();

  /** Keeps at least the last `sizeMax / 2` entries used and never more than `sizeMax`. */
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
