import type { MapInfo, NativeObject } from './addon.ts';
import { createMisuseError, runWithBpfErrors } from './errors.ts';

/**
 * A map of a loaded object. Keys and values are bytes, of exactly the map's sizes; a per-CPU map's value is
 * `possibleCpus()` values in a row, each padded to 8 bytes. Methods throw ERR_CLOSED once the object is closed.
 */
export class BpfMap {
  readonly #native: NativeObject;
  readonly #index: number;
  readonly info: MapInfo;
  /** Size in bytes of a value for get() and set(). */
  readonly valueBytes: number;

  /** @internal Made by BpfObject.map(). */
  constructor(native: NativeObject, index: number) {
    this.#native = native;
    this.#index = index;
    this.info = native.maps()[index]!;
    this.valueBytes = native.mapOpen(index);
  }

  /** Fills `into` (or a new array) with the key's value and returns it; undefined if the key is not there. */
  get(key: Uint8Array, into: Uint8Array = new Uint8Array(this.valueBytes)): Uint8Array | undefined {
    return runWithBpfErrors(() => this.#native.mapGet(this.#index, key, into)) ? into : undefined;
  }

  /**
   * Stores a value.
   * @param flags 0 create or replace, 1 (BPF_NOEXIST) only create, 2 (BPF_EXIST) only replace
   */
  set(key: Uint8Array, value: Uint8Array, flags = 0): void {
    runWithBpfErrors(() => this.#native.mapSet(this.#index, key, value, flags));
  }

  /**
   * Stores `map`, of the same object, in this map of maps. When this function returns, no program uses the replaced map
   * any more; the wait takes some milliseconds.
   * @throws ERR_WRONG_TYPE: this is no map of maps, or `map` is of another object; BpfError EINVAL: `map` differs from
   * the maps that this map holds
   */
  setMap(key: Uint8Array, map: BpfMap): void {
    if (map.#native !== this.#native) {
      throw createMisuseError(TypeError, 'ERR_WRONG_TYPE', `Map '${map.info.name}' is of another object`);
    }
    runWithBpfErrors(() => this.#native.mapSetMap(this.#index, key, map.#index));
  }

  /** Deletes a key; returns whether the key was there. An array's entries cannot be deleted: BpfError EINVAL. */
  delete(key: Uint8Array): boolean {
    return runWithBpfErrors(() => this.#native.mapDelete(this.#index, key));
  }

  /**
   * Returns the keys at the time of the call. If the kernel deletes keys at the same time, some keys may occur twice or
   * be missing.
   */
  keys(): Iterable<Uint8Array> {
    const keys = runWithBpfErrors(() => this.#native.mapKeys(this.#index));
    return split(keys, this.info.keySize);
  }

  /** Returns the keys of keys() that still have a value, each with its value. */
  entries(): Iterable<[key: Uint8Array, value: Uint8Array]> {
    return readEntries(this, this.keys());
  }

  [Symbol.iterator](): Iterator<[key: Uint8Array, value: Uint8Array]> {
    return this.entries()[Symbol.iterator]();
  }
}

function* split(keys: Uint8Array, keySize: number): Generator<Uint8Array> {
  for (let start = 0; start < keys.length; start += keySize) yield keys.subarray(start, start + keySize);
}

function* readEntries(map: BpfMap, keys: Iterable<Uint8Array>): Generator<[Uint8Array, Uint8Array]> {
  for (const key of keys) {
    const value = map.get(key);
    if (value !== undefined) yield [key, value];
  }
}
