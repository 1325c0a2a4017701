/** Maps fixed-size texts of records to the recording's ids, without making a string of one that was seen before. */
import { readText } from '../../bpf/schema/record_reader.ts';

const SLOTS = 1024;

export interface TextCache {
  /** Id of the NUL-padded text at byte `offset`. */
  idAt(words: Uint32Array, offset: number): number;
}

/** The cache is direct-mapped: a collision only costs making the string. */
export function createTextCache(
  size: number,
  intern: (text: string) => number,
  oldestIds: { readonly name: number },
): TextCache {
  const width = size >>> 2;
  const keys = new Uint32Array(SLOTS * width);
  /** 0 marks an empty slot, or a text that the recording had no room for; ids below the oldest are interned again. */
  const ids = new Uint32Array(SLOTS);
  /** Neighbours mostly have the same text. */
  let lastSlot = 0;

  function holds(slot: number, words: Uint32Array, at: number): boolean {
    if (ids[slot]! < oldestIds.name) return false;
    const key = slot * width;
    for (let i = 0; i < width; i++) if (keys[key + i] !== words[at + i]) return false;
    return true;
  }

  return {
    idAt(words, offset) {
      const at = offset >>> 2;
      if (holds(lastSlot, words, at)) return ids[lastSlot]!;
      let hash = 0;
      for (let i = 0; i < width; i++) hash = Math.imul(hash ^ words[at + i]!, 0x9e3779b1);
      const slot = (hash >>> 16) % SLOTS;
      if (!holds(slot, words, at)) {
        ids[slot] = intern(readText(new DataView(words.buffer, words.byteOffset), offset, size));
        keys.set(words.subarray(at, at + width), slot * width);
      }
      lastSlot = slot;
      return ids[slot]!;
    },
  };
}
