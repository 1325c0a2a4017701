/** Fixed-size texts of records -> the recording's numbers, without making a string for one that was seen before. */
import { readText } from '../../bpf/schema/record_reader.ts';

const SLOTS = 1024;

export interface TextCache {
  /** Number of the NUL-padded text at byte `offset`. */
  idAt(words: Uint32Array, offset: number): number;
}

/** Direct-mapped: a collision only costs the string. */
export function createTextCache(
  size: number,
  intern: (text: string) => number,
  oldestIds: { readonly name: number },
): TextCache {
  const width = size >>> 2;
  const keys = new Uint32Array(SLOTS * width);
  /** 0: an empty slot, or a text that the recording could not take just then; those too old are asked for again. */
  const ids = new Uint32Array(SLOTS);
  return {
    idAt(words, offset) {
      const at = offset >>> 2;
      let hash = 0;
      for (let i = 0; i < width; i++) hash = Math.imul(hash ^ words[at + i]!, 0x9e3779b1);
      const slot = (hash >>> 16) % SLOTS;
      const key = slot * width;
      let same = ids[slot]! >= oldestIds.name;
      for (let i = 0; same && i < width; i++) same = keys[key + i] === words[at + i];
      if (!same) {
        ids[slot] = intern(readText(new DataView(words.buffer, words.byteOffset), offset, size));
        for (let i = 0; i < width; i++) keys[key + i] = words[at + i]!;
      }
      return ids[slot]!;
    },
  };
}
