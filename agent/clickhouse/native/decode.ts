/**
 * Decodes blocks of FORMAT Native as their bytes arrive. Only one block is in memory at a time, and its size is
 * limited.
 */
import { ByteReader } from './byte_reader.ts';
import type { ColumnValues, SimpleValues } from './encode.ts';
import { NativeError } from './errors.ts';
import type { TextIds, Texts } from './texts.ts';
import {
  DICTIONARY_VERSION,
  HAS_GLOBAL_DICTIONARY,
  HAS_OWN_KEYS,
  INDEX_ARRAYS,
  INTEGERS,
  type IntegerName,
  type NativeType,
  parseType,
  sanitizeName,
} from './types.ts';

export interface DecodedColumn {
  readonly type: NativeType;
  readonly values: ColumnValues;
}

export interface NativeBlock {
  readonly rowCount: number;
  readonly columns: ReadonlyMap<string, DecodedColumn>;
}

/** Limits on a server's blocks. By default, a server sends blocks of 65,536 rows. */
const COLUMNS_MAX = 1000;
const ROWS_MAX = 2 ** 18;
const NAME_BYTES_MAX = 4096;
const ITEMS_MAX = 2 ** 22;
/**
 * Maximum size of a text. The longest text is a node's list of calls in progress: agent/recording/read/unended_text.ts.
 */
const TEXT_BYTES_MAX = 4 * 1024 * 1024;
/**
 * Maximum size of a block. Two blocks may be in memory at once, and a block takes twice its size while its buffer
 * grows.
 */
const BLOCK_BYTES_MAX = 64 * 1024 * 1024;
/** Maximum number of blocks without rows. A server sends one before or after all other blocks. */
const EMPTY_BLOCKS_MAX = 100;

export interface DecodeLimits {
  blockBytesMax?: number | undefined;
  /** Maximum size of all blocks together. */
  answerBytesMax?: number | undefined;
}

/** Decodes blocks. Throws a NativeError if the bytes are not valid blocks. Closes the source when the caller stops. */
export async function* decodeBlocks(
  chunks: AsyncIterable<Uint8Array>,
  { blockBytesMax = BLOCK_BYTES_MAX, answerBytesMax }: DecodeLimits = {},
): AsyncGenerator<NativeBlock> {
  const reader = new ByteReader(chunks, answerBytesMax);
  let empty = 0;
  try {
    for (;;) {
      reader.allow(blockBytesMax);
      if (!(await reader.has(1))) return;
      const block = await readBlock(reader);
      if (block.rowCount === 0 && ++empty > EMPTY_BLOCKS_MAX)
        throw new NativeError(`it has more than ${EMPTY_BLOCKS_MAX} blocks without rows`);
      yield block;
    }
  } catch (error) {
    if (error instanceof NativeError) error.tail = await reader.readTail();
    throw error;
  } finally {
    await reader.close();
  }
}

async function readBlock(reader: ByteReader): Promise<NativeBlock> {
  const columnCount = await reader.readVarint(COLUMNS_MAX, 'the number of its columns');
  const rowCount = await reader.readVarint(ROWS_MAX, 'the number of its rows');
  if (columnCount === 0 && rowCount > 0) throw new NativeError('it has rows without columns');
  const columns = new Map<string, DecodedColumn>();
  for (let i = 0; i < columnCount; i++) {
    const name = await reader.readText(NAME_BYTES_MAX, 'the length of a column name');
    const type = parseType(await reader.readText(NAME_BYTES_MAX, 'the length of a type'));
    if (columns.has(name)) throw new NativeError(`it has a column ${sanitizeName(name)} twice`);
    columns.set(name, { type, values: await readColumn(reader, type, rowCount) });
  }
  return { rowCount, columns };
}

async function readColumn(reader: ByteReader, type: NativeType, rowCount: number): Promise<ColumnValues> {
  if (type.kind !== 'list') return readSimple(reader, type, rowCount);
  // The ends are 64-bit integers; their upper halves are 0 in a valid answer.
  const halves = new Uint32Array((await readBytes(reader, 8 * rowCount)).buffer);
  const ends = new Uint32Array(rowCount);
  let last = 0;
  for (let row = 0; row < rowCount; row++) {
    const end = halves[2 * row]!;
    if (end < last || end > ITEMS_MAX || halves[2 * row + 1] !== 0) throw new NativeError('a list has a wrong end');
    ends[row] = end;
    last = end;
  }
  return { ends, items: await readSimple(reader, type.item, last) };
}

async function readSimple(
  reader: ByteReader,
  type: Exclude<NativeType, { kind: 'list' }>,
  count: number,
): Promise<SimpleValues> {
  switch (type.kind) {
    case 'integer':
      return readIntegers(reader, type.integer, count);
    case 'text':
      return readTexts(reader, count);
    case 'fixed_text':
      return readBytes(reader, count * type.bytes);
    case 'dictionary':
      return count === 0 ? { table: NO_TEXTS } : readDictionary(reader, count);
  }
}

const NO_TEXTS = { bytes: Buffer.alloc(0), starts: new Uint32Array(0), ends: new Uint32Array(0), length: 0 };

async function readIntegers(reader: ByteReader, name: IntegerName, count: number): Promise<SimpleValues> {
  const { buffer } = await readBytes(reader, count * INTEGERS[name].BYTES_PER_ELEMENT);
  return new INTEGERS[name](buffer);
}

const FIRST_READ_BYTES = 8 * 1024 * 1024;

/** Reads bytes. For large lengths, the memory grows only as bytes arrive, because a length may be false. */
async function readBytes(reader: ByteReader, length: number): Promise<Uint8Array<ArrayBuffer>> {
  let bytes = new Uint8Array(Math.min(length, FIRST_READ_BYTES));
  await reader.fill(bytes);
  while (bytes.length < length) {
    const larger = new Uint8Array(Math.min(length, 2 * bytes.length));
    larger.set(bytes);
    await reader.fill(larger.subarray(bytes.length));
    bytes = larger;
  }
  return bytes;
}

/**
 * Reads texts. Received bytes are copied in large runs, so the table also has the lengths, which stand between the
 * texts.
 */
async function readTexts(reader: ByteReader, count: number): Promise<Texts> {
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  let bytes = Buffer.allocUnsafe(0);
  let used = 0;
  for (let row = 0; row < count; ) {
    const { buffer, at: from } = reader;
    let at = from;
    let wanted = 1;
    for (; row < count; row++) {
      const start = findTextStart(buffer, at);
      wanted = start < 0 ? buffer.length - at + 1 : start + readTextLength(buffer, at) - at;
      if (start < 0 || at + wanted > buffer.length) break;
      starts[row] = used + start - from;
      at += wanted;
      ends[row] = used + at - from;
    }
    if (used + at - from > bytes.length) bytes = growBuffer(bytes, used, used + at - from, row / count);
    buffer.copy(bytes, used, from, at);
    used += at - from;
    reader.at = at;
    if (row < count) await reader.need(wanted);
  }
  return { table: { bytes, starts, ends, length: count } };
}

/**
 * Grows the buffer for all texts, at most to twice `size`. The texts read so far are the `share` of all texts, and need
 * `size` bytes.
 */
function growBuffer(bytes: Buffer, used: number, size: number, share: number): Buffer<ArrayBuffer> {
  const expected = share > 0 ? Math.ceil((size / share) * 1.1) : size;
  const larger = Buffer.allocUnsafe(Math.max(size, Math.min(expected, 2 * size)));
  bytes.copy(larger, 0, 0, used);
  return larger;
}

/** Returns the start of the text whose length is stored at `at`; -1 if not all bytes of the length have arrived. */
function findTextStart(buffer: Buffer, at: number): number {
  for (let i = at; i < buffer.length; i++) {
    if (buffer[i]! < 0x80) return i + 1;
    if (i - at >= 4) throw new NativeError(`a text is longer than ${TEXT_BYTES_MAX} bytes`);
  }
  return -1;
}

function readTextLength(buffer: Buffer, at: number): number {
  let [value, scale] = [0, 1];
  for (let i = at; ; i++) {
    const byte = buffer[i]!;
    value += (byte & 0x7f) * scale;
    scale *= 0x80;
    if (byte < 0x80) break;
  }
  if (value > TEXT_BYTES_MAX) throw new NativeError(`a text is longer than ${TEXT_BYTES_MAX} bytes`);
  return value;
}

async function readDictionary(reader: ByteReader, rowCount: number): Promise<Texts> {
  const version = await reader.readU64();
  if (version !== BigInt(DICTIONARY_VERSION)) throw new NativeError(`a dictionary has version ${version}`);
  const flags = await reader.readCount64(0xffff, 'what a dictionary consists of');
  const indexes = INDEX_ARRAYS[flags & 0xff];
  if ((flags & HAS_GLOBAL_DICTIONARY) !== 0 || (flags & HAS_OWN_KEYS) === 0 || !indexes)
    throw new NativeError(`a dictionary is of a kind that is not expected, ${flags}`);
  const size = await reader.readCount64(ITEMS_MAX, 'the size of a dictionary');
  const { table } = await readTexts(reader, size);
  const count = await reader.readCount64(ROWS_MAX, 'the number of indexes');
  if (count !== rowCount) throw new NativeError(`it has ${count} indexes for ${rowCount} rows`);
  const { buffer } = await readBytes(reader, count * indexes.BYTES_PER_ELEMENT);
  const ids: TextIds = new indexes(buffer);
  for (let row = 0; row < count; row++)
    if (ids[row]! >= size) throw new NativeError(`an index is ${ids[row]}, and the dictionary has ${size} texts`);
  return { table, ids };
}
