/** Encodes columns as a block of FORMAT Native, without allocating objects for rows. */
import { growArray } from '../../../daemon/base/growing_array.ts';
import { growBuffer } from '../../../daemon/base/growing_buffer.ts';
import { EncodeError } from './errors.ts';
import type { TextIds, Texts, TextTable } from './texts.ts';
import {
  DICTIONARY_VERSION,
  formatTypeName,
  HAS_OWN_KEYS,
  INDEX_ARRAYS,
  INTEGERS,
  type IntegerArray,
  type IntegerName,
  type NativeType,
  UPDATES_DICTIONARY,
} from './types.ts';

/** Values of a list column. Row i has the items from `ends[i - 1]` (0 for the first row) up to `ends[i]`. */
export interface Lists {
  readonly ends: Uint32Array;
  readonly items: SimpleValues;
}

/**
 * Values of a simple column. The arrays may be longer than the rows in use. A `Uint8Array` may also contain the bytes
 * of a FixedString column, one text after another.
 */
export type SimpleValues = IntegerArray | Texts;
export type ColumnValues = SimpleValues | Lists;

export interface Column {
  readonly name: string;
  readonly type: NativeType;
  readonly values: ColumnValues;
}

export interface BlockEncoder {
  /** Encodes a block. Later calls do not reuse the returned buffer. */
  encode(columns: readonly Column[], rowCount: number): Buffer;
}

/** Creates an encoder. It keeps memory between blocks, so each stream of blocks needs its own encoder. */
export function createBlockEncoder(): BlockEncoder {
  const writer = new ByteWriter();
  const dictionaries = createDictionaryWriter(writer);

  function writeSimple(type: NativeType, values: SimpleValues, count: number): void {
    if (type.kind === 'integer') writeIntegers(type.integer, values, count);
    else if (type.kind === 'fixed_text') writeFixedTexts(writer, type.bytes, values, count);
    else if (!('table' in values)) throw new EncodeError(`numbers cannot be a column of ${formatTypeName(type)}`);
    else if (type.kind === 'text') writeTexts(writer, values, count);
    else dictionaries.write(values, count);
  }

  function writeIntegers(name: IntegerName, values: SimpleValues, count: number): void {
    if (!(values instanceof INTEGERS[name])) throw new EncodeError(`a column of ${name} needs an array of that type`);
    if (values.length < count) throw new EncodeError(`${values.length} numbers are too few for ${count} rows`);
    writer.writeBytes(new Uint8Array(values.buffer, values.byteOffset, count * values.BYTES_PER_ELEMENT));
  }

  function writeLists(type: NativeType & { kind: 'list' }, { ends, items }: Lists, rowCount: number): void {
    if (ends.length < rowCount) throw new EncodeError(`${ends.length} lists are too few for ${rowCount} rows`);
    const wide = new BigUint64Array(rowCount);
    let last = 0;
    for (let row = 0; row < rowCount; row++) {
      const end = ends[row]!;
      if (end < last) throw new EncodeError('a list ends before it begins');
      wide[row] = BigInt(end);
      last = end;
    }
    writer.writeBytes(new Uint8Array(wide.buffer));
    writeSimple(type.item, items, last);
  }

  return {
    encode(columns, rowCount) {
      writer.clear();
      writer.writeVarint(columns.length);
      writer.writeVarint(rowCount);
      for (const { name, type, values } of columns) {
        writer.writeText(name);
        writer.writeText(formatTypeName(type));
        // A block without rows has neither values nor a dictionary version.
        if (rowCount === 0) continue;
        if (type.kind !== 'list') {
          if ('items' in values) throw new EncodeError(`lists cannot be a column of ${formatTypeName(type)}`);
          writeSimple(type, values, rowCount);
        } else if ('items' in values) writeLists(type, values, rowCount);
        else throw new EncodeError(`a column of ${formatTypeName(type)} needs lists`);
      }
      return writer.take();
    },
  };
}

function checkIds({ table, ids }: Texts, count: number): void {
  const available = ids ? ids.length : table.length;
  if (available < count) throw new EncodeError(`${available} texts are too few for ${count} rows`);
}

function createUnknownIdError(id: number): EncodeError {
  return new EncodeError(`there is no text ${id} in the table`);
}

function writeTexts(writer: ByteWriter, texts: Texts, count: number): void {
  checkIds(texts, count);
  const { table, ids } = texts;
  const { bytes, starts, ends, length } = table;
  for (let row = 0; row < count; row++) {
    const id = ids ? ids[row]! : row;
    if (id >= length) throw createUnknownIdError(id);
    writer.writeLengthAndBytes(bytes, starts[id]!, ends[id]!);
  }
}

/** Writes texts of fixed size. Pads shorter texts with zeros, as FixedString requires. */
function writeFixedTexts(writer: ByteWriter, size: number, values: SimpleValues, count: number): void {
  if (values instanceof Uint8Array) {
    if (values.length < count * size) throw new EncodeError(`the bytes are too few for ${count} rows of ${size}`);
    writer.writeBytes(values.subarray(0, count * size));
    return;
  }
  if (!('table' in values)) throw new EncodeError('a column of FixedString needs bytes or texts');
  checkIds(values, count);
  const { table, ids } = values;
  const { bytes, starts, ends, length } = table;
  for (let row = 0; row < count; row++) {
    const id = ids ? ids[row]! : row;
    if (id >= length) throw createUnknownIdError(id);
    if (ends[id]! - starts[id]! > size) throw new EncodeError(`a text is longer than FixedString(${size})`);
    writer.writePadded(bytes, starts[id]!, ends[id]!, size);
  }
}

/**
 * Writes LowCardinality columns: the distinct texts, starting with the empty text, and then an index for each row. The
 * indexes are computed here and never taken from a caller, because an index beyond the dictionary crashes a server of
 * version 18.16.
 */
function createDictionaryWriter(writer: ByteWriter): { write(texts: Texts, count: number): void } {
  // Index of each text in this block's dictionary, by the text's id in the table; 0 if the text is not in the
  // dictionary. All entries are 0 between blocks.
  let placeOf = new Uint32Array(1024);
  let used = new Uint32Array(256);
  let indexes = new Uint32Array(4096);

  function gather({ table, ids }: Texts, count: number): number {
    const { starts, ends, length } = table;
    if (placeOf.length < length) placeOf = new Uint32Array(2 * length);
    if (indexes.length < count) indexes = new Uint32Array(2 * count);
    let size = 1;
    for (let row = 0; row < count; row++) {
      const id = ids ? ids[row]! : row;
      if (id >= length) {
        forget(size);
        throw createUnknownIdError(id);
      }
      let place = placeOf[id]!;
      if (place === 0 && ends[id] !== starts[id]) {
        if (size === used.length) used = growArray(used);
        used[size] = id;
        place = size++;
        placeOf[id] = place;
      }
      indexes[row] = place;
    }
    return size;
  }

  function forget(size: number): void {
    for (let place = 1; place < size; place++) placeOf[used[place]!] = 0;
  }

  function writeDictionary({ bytes, starts, ends }: TextTable, size: number): void {
    writer.writeVarint(0);
    for (let place = 1; place < size; place++) {
      const id = used[place]!;
      writer.writeLengthAndBytes(bytes, starts[id]!, ends[id]!);
    }
  }

  return {
    write(texts, count) {
      checkIds(texts, count);
      const size = gather(texts, count);
      const width = size <= 0x100 ? 0 : size <= 0x1_0000 ? 1 : 2;
      writer.writeU64(DICTIONARY_VERSION);
      writer.writeU64(HAS_OWN_KEYS | UPDATES_DICTIONARY | width);
      writer.writeU64(size);
      writeDictionary(texts.table, size);
      forget(size);
      writer.writeU64(count);
      const narrow: TextIds = new INDEX_ARRAYS[width]!(count);
      for (let row = 0; row < count; row++) narrow[row] = indexes[row]!;
      writer.writeBytes(new Uint8Array(narrow.buffer, narrow.byteOffset, narrow.byteLength));
    },
  };
}

/* Writes bytes one after another into a buffer that grows. */

const FIRST_BYTES = 64 * 1024;
/** Maximum number of bytes that are copied one by one. For more bytes, `Buffer.copy` is faster. */
const COPIED_BY_HAND = 48;

class ByteWriter {
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #at = 0;

  #reserve(count: number): void {
    if (this.#at + count <= this.#buffer.length) return;
    this.#buffer = growBuffer(this.#buffer, this.#at, this.#at + count);
  }

  writeBytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  writeVarint(value: number): void {
    this.#reserve(8);
    while (value >= 0x80) {
      this.#buffer[this.#at++] = (value & 0x7f) | 0x80;
      value = Math.floor(value / 0x80);
    }
    this.#buffer[this.#at++] = value;
  }

  /** Writes an integer from 0 to 2^32 - 1 as a 64-bit integer. */
  writeU64(value: number): void {
    this.#reserve(8);
    this.#at = this.#buffer.writeUInt32LE(value, this.#at);
    this.#at = this.#buffer.writeUInt32LE(0, this.#at);
  }

  writeText(text: string): void {
    const bytes = Buffer.from(text);
    this.writeLengthAndBytes(bytes, 0, bytes.length);
  }

  writeLengthAndBytes(source: Buffer, start: number, end: number): void {
    this.writeVarint(end - start);
    this.#reserve(end - start);
    this.#copy(source, start, end);
  }

  /** Writes the bytes of the source, and then zeros up to `size` bytes. */
  writePadded(source: Buffer, start: number, end: number, size: number): void {
    this.#reserve(size);
    const after = this.#at + size;
    this.#copy(source, start, end);
    while (this.#at < after) this.#buffer[this.#at++] = 0;
  }

  #copy(source: Buffer, start: number, end: number): void {
    const buffer = this.#buffer;
    let at = this.#at;
    if (end - start <= COPIED_BY_HAND) for (let i = start; i < end; i++) buffer[at++] = source[i]!;
    else at += source.copy(buffer, at, start, end);
    this.#at = at;
  }

  /** Discards the bytes that a failed attempt wrote. */
  clear(): void {
    this.#at = 0;
  }

  /** Returns the written bytes, and continues with a new buffer of about the same size. */
  take(): Buffer {
    const written = this.#buffer.subarray(0, this.#at);
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(FIRST_BYTES, this.#at + (this.#at >>> 3)));
    this.#at = 0;
    return written;
  }
}
