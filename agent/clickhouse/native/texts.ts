/**
 * Stores the texts of a column without an object for each text: all bytes in one array, and the bounds of each text.
 */
import { growArray } from '../../../daemon/base/growing_array.ts';
import { growBuffer } from '../../../daemon/base/growing_buffer.ts';

/**
 * A table of texts. Text `id` consists of the bytes from `starts[id]` up to `ends[id]`. There may be other bytes
 * between texts.
 */
export interface TextTable {
  readonly bytes: Buffer;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  readonly length: number;
}

export type TextIds = Uint8Array | Uint16Array | Uint32Array;

/** A column of texts. Row i has the text `ids[i]` of the table, or text i if there are no ids. */
export interface Texts {
  readonly table: TextTable;
  readonly ids?: TextIds | undefined;
}

export function decodeText({ table, ids }: Texts, row: number): string {
  const id = ids ? ids[row]! : row;
  return table.bytes.toString('utf8', table.starts[id]!, table.ends[id]!);
}

/** A table that grows. Adding a text may replace the arrays, so callers must not keep references to them. */
export interface GrowingTable extends TextTable {
  /** Adds a text and returns its id. A text that is added twice gets two ids. */
  add(text: string | Uint8Array): number;
  /** Removes all texts but keeps the memory. */
  clear(): void;
}

export function createTextTable(texts: Iterable<string | Uint8Array> = []): GrowingTable {
  let [bytes, starts, ends] = [Buffer.allocUnsafe(1024), new Uint32Array(64), new Uint32Array(64)];
  let [length, used] = [0, 0];
  const table: GrowingTable = {
    get bytes() {
      return bytes;
    },
    get starts() {
      return starts;
    },
    get ends() {
      return ends;
    },
    get length() {
      return length;
    },
    add(text) {
      const size = typeof text === 'string' ? Buffer.byteLength(text) : text.length;
      if (used + size > bytes.length) bytes = growBuffer(bytes, used, used + size);
      if (length === starts.length) [starts, ends] = [growArray(starts), growArray(ends)];
      if (typeof text === 'string') bytes.write(text, used);
      else bytes.set(text, used);
      starts[length] = used;
      used += size;
      ends[length] = used;
      return length++;
    },
    clear() {
      [length, used] = [0, 0];
    },
  };
  for (const text of texts) table.add(text);
  return table;
}
