/**
 * Reads a 64-bit x86 ELF file, see elf(5): the load bias, the section names, the thread-local storage, an exported
 * symbol, and the relocations of thread-local variables. The file is not trusted: data out of bounds is treated as
 * missing.
 */
import { readSync } from 'node:fs';

/** Reads exactly `size` bytes at `offset`; returns undefined if it cannot. */
export type ReadAt = (offset: number, size: number) => DataView | undefined;

export interface TlsSegment {
  readonly address: number;
  readonly memorySize: number;
  readonly alignment: number;
}

export interface TlsSymbol {
  /** Offset of the variable in the module's TLS block. */
  readonly value: number;
  readonly size: number;
}

/**
 * How the dynamic linker locates a thread-local variable: by module id, by offset from the thread pointer, or by
 * descriptor.
 */
export type TlsRelocationKind = 'module' | 'offset' | 'descriptor';

export interface TlsRelocation {
  readonly kind: TlsRelocationKind;
  /** Address of the slot that the dynamic linker fills in, without the load bias. */
  readonly address: number;
  /** Name of the variable; undefined if the relocation is for the module itself. */
  readonly symbol: string | undefined;
  readonly addend: number;
}

export interface Elf {
  /** Whether the file declares itself a program, not a library. */
  readonly isExecutable: boolean;
  readonly tls: TlsSegment | undefined;
  /**
   * Returns the load bias: the difference between an address in memory and the same address in the file. `start` is the
   * memory address where the code at `fileOffset` is mapped. Returns undefined if the file has no code at `fileOffset`.
   */
  findLoadBias(start: number, fileOffset: number): number | undefined;
  /** Finds a thread-local variable that the file exports. */
  findExportedTlsSymbol(name: string): TlsSymbol | undefined;
  readTlsRelocations(): Generator<TlsRelocation, void>;
  /**
   * Returns an empty list if the file has no section headers, because a program runs without them; undefined if reading
   * fails.
   */
  readSectionNames(): string[] | undefined;
  /**
   * Returns up to `sizeMax` bytes from the start of the first writable segment, as stored in the file. The result is
   * empty if no segment is writable, undefined if reading fails.
   */
  readDataStart(sizeMax: number): Uint8Array | undefined;
}

const HEADER_SIZE = 64;
/** The first bytes of the file: 0x7f "ELF", 64 bits, little-endian, version 1. */
const IDENTIFICATION = [0x464c457f, 0x00010102];
const IDENTIFICATION_MASK = 0x00ffffff;
const ET_EXEC = 2;
const ET_DYN = 3;
const EM_X86_64 = 62;

const PROGRAM_HEADER_SIZE = 56;
const PROGRAM_HEADERS_MAX = 128;
const PT_LOAD = 1;
const PT_DYNAMIC = 2;
const PT_TLS = 7;
const PF_X = 1;
const PF_W = 2;
const PAGE_SIZE = 4096;

const SECTION_HEADER_SIZE = 64;
const SECTIONS_MAX = 256;
const SECTION_NAMES_BYTES_MAX = 1 << 16;

const DYNAMIC_ENTRY_SIZE = 16;
const DYNAMIC_ENTRIES_MAX = 1024;
const DT_PLTRELSZ = 2;
const DT_HASH = 4;
const DT_STRTAB = 5;
const DT_SYMTAB = 6;
const DT_RELA = 7;
const DT_RELASZ = 8;
const DT_JMPREL = 23;
const DT_GNU_HASH = 0x6ffffef5;
const DT_RELACOUNT = 0x6ffffff9;
const DT_FLAGS_1 = 0x6ffffffb;
/** Bit of DT_FLAGS_1: the file is a position-independent executable. */
const DF_1_PIE = 0x08000000;

const SYMBOL_SIZE = 24;
const STT_TLS = 6;
const SHN_UNDEF = 0;
const NAME_BYTES_MAX = 64;

const RELA_SIZE = 24;
const RELAS_PER_READ = 2048;
const TLS_RELOCATIONS_MAX = 1024;
const KIND_BY_TYPE = new Map<number, TlsRelocationKind>([
  [16, 'module'], // R_X86_64_DTPMOD64; the word after the slot is the offset in the module's block.
  [18, 'offset'], // R_X86_64_TPOFF64
  [36, 'descriptor'], // R_X86_64_TLSDESC
]);

interface ProgramSegment extends TlsSegment {
  readonly type: number;
  readonly flags: number;
  readonly offset: number;
  readonly fileSize: number;
}

/**
 * Reads an unsigned 64-bit integer. Returns Infinity for a value larger than any file or address, so that every bounds
 * check rejects the value.
 */
export function readU64(view: DataView, at: number): number {
  const value = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
  return Number.isSafeInteger(value) ? value : Number.POSITIVE_INFINITY;
}

export function readI64(view: DataView, at: number): number {
  const value = view.getUint32(at, true) + view.getInt32(at + 4, true) * 2 ** 32;
  return Number.isSafeInteger(value) ? value : Number.POSITIVE_INFINITY;
}

export function createFileReader(file: number): ReadAt {
  return (offset, size) => {
    if (!Number.isSafeInteger(offset) || offset < 0) return undefined;
    const bytes = new Uint8Array(size);
    return readSync(file, bytes, 0, size, offset) === size ? new DataView(bytes.buffer) : undefined;
  };
}

/** Reads the headers of an ELF file. Returns undefined if it is not a 64-bit x86 ELF file. */
export function readElf(read: ReadAt): Elf | undefined {
  const header = read(0, HEADER_SIZE);
  if (!header || !isElf(header)) return undefined;
  const segments = readSegments(read, header);
  const readAddress: ReadAddress = (address, size) => {
    const segment = segments.find((one) => one.type === PT_LOAD && holds(one, address, size));
    return segment && read(segment.offset + (address - segment.address), size);
  };
  const dynamic = readDynamic(read, segments);
  const tls = segments.find(({ type }) => type === PT_TLS);
  const isPie = ((dynamic.get(DT_FLAGS_1) ?? 0) & DF_1_PIE) !== 0;
  return {
    isExecutable: header.getUint16(16, true) === ET_EXEC || isPie,
    tls,
    findLoadBias(start, fileOffset) {
      const code = segments.find(
        ({ type, flags, offset }) => type === PT_LOAD && flags & PF_X && computePageStart(offset) === fileOffset,
      );
      return code && start - computePageStart(code.address);
    },
    findExportedTlsSymbol: (name) => (tls ? findExportedTlsSymbol(readAddress, dynamic, name) : undefined),
    readTlsRelocations: () => readTlsRelocations(readAddress, dynamic),
    readSectionNames: () => readSectionNames(read, header),
    readDataStart(sizeMax) {
      const data = segments.find(({ type, flags }) => type === PT_LOAD && flags & PF_W);
      if (!data) return new Uint8Array();
      const bytes = read(data.offset, Math.min(data.fileSize, sizeMax));
      return bytes && new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
  };
}

function isElf(header: DataView): boolean {
  const type = header.getUint16(16, true);
  return (
    header.getUint32(0, true) === IDENTIFICATION[0] &&
    (header.getUint32(4, true) & IDENTIFICATION_MASK) === IDENTIFICATION[1] &&
    (type === ET_EXEC || type === ET_DYN) &&
    header.getUint16(18, true) === EM_X86_64 &&
    header.getUint16(54, true) === PROGRAM_HEADER_SIZE
  );
}

function computePageStart(address: number): number {
  return Math.floor(address / PAGE_SIZE) * PAGE_SIZE;
}

function holds({ address: from, fileSize }: ProgramSegment, address: number, size: number): boolean {
  return address >= from && size <= fileSize - (address - from);
}

function readSegments(read: ReadAt, header: DataView): ProgramSegment[] {
  const count = Math.min(header.getUint16(56, true), PROGRAM_HEADERS_MAX);
  const table = read(readU64(header, 32), count * PROGRAM_HEADER_SIZE);
  if (!table) return [];
  return Array.from({ length: count }, (_, i) => {
    const at = i * PROGRAM_HEADER_SIZE;
    return {
      type: table.getUint32(at, true),
      flags: table.getUint32(at + 4, true),
      offset: readU64(table, at + 8),
      address: readU64(table, at + 16),
      fileSize: readU64(table, at + 32),
      memorySize: readU64(table, at + 40),
      alignment: readU64(table, at + 48),
    };
  });
}

function readSectionNames(read: ReadAt, header: DataView): string[] | undefined {
  const declared = header.getUint16(60, true);
  if (header.getUint16(58, true) !== SECTION_HEADER_SIZE || declared === 0) return [];
  const count = Math.min(declared, SECTIONS_MAX);
  const namesIndex = header.getUint16(62, true);
  const table = read(readU64(header, 40), count * SECTION_HEADER_SIZE);
  if (!table || namesIndex >= count) return undefined;
  const namesAt = namesIndex * SECTION_HEADER_SIZE;
  const size = Math.min(readU64(table, namesAt + 32), SECTION_NAMES_BYTES_MAX);
  const view = read(readU64(table, namesAt + 24), size);
  if (!view) return undefined;
  const names = Buffer.from(view.buffer, view.byteOffset, size).toString('latin1');
  return Array.from({ length: count }, (_, i) => {
    const from = table.getUint32(i * SECTION_HEADER_SIZE, true);
    const end = names.indexOf('\0', from);
    return names.slice(from, end < 0 ? undefined : end);
  });
}

/**
 * Maps each tag of the dynamic section to its value. A repeated tag gets its last value; ELF does not allow the tags
 * that are used here to be repeated.
 */
function readDynamic(read: ReadAt, segments: readonly ProgramSegment[]): Map<number, number> {
  const entries = new Map<number, number>();
  const segment = segments.find(({ type }) => type === PT_DYNAMIC);
  if (!segment) return entries;
  const count = Math.min(Math.floor(segment.fileSize / DYNAMIC_ENTRY_SIZE), DYNAMIC_ENTRIES_MAX);
  const table = read(segment.offset, count * DYNAMIC_ENTRY_SIZE);
  for (let i = 0; table && i < count; i++) {
    const tag = readU64(table, i * DYNAMIC_ENTRY_SIZE);
    if (tag === 0) break;
    entries.set(tag, readU64(table, i * DYNAMIC_ENTRY_SIZE + 8));
  }
  return entries;
}

type Dynamic = ReadonlyMap<number, number>;

function findExportedTlsSymbol(read: ReadAddress, dynamic: Dynamic, name: string): TlsSymbol | undefined {
  const symbols = dynamic.get(DT_SYMTAB);
  const gnuHash = dynamic.get(DT_GNU_HASH);
  const sysvHash = dynamic.get(DT_HASH);
  if (symbols === undefined) return undefined;
  const isNamed = (index: number) => readSymbolName(read, dynamic, index) === name;
  let index: number | undefined;
  if (gnuHash !== undefined) index = lookUpGnuHash(read, gnuHash, name, isNamed);
  else if (sysvHash !== undefined) index = lookUpSysvHash(read, sysvHash, name, isNamed);
  const symbol = index === undefined ? undefined : read(symbols + index * SYMBOL_SIZE, SYMBOL_SIZE);
  if (!symbol || (symbol.getUint8(4) & 0xf) !== STT_TLS || symbol.getUint16(6, true) === SHN_UNDEF) return undefined;
  return { value: readU64(symbol, 8), size: readU64(symbol, 16) };
}

/** Reads the name of a symbol. Returns undefined for a name longer than NAME_BYTES_MAX; searched names are shorter. */
function readSymbolName(read: ReadAddress, dynamic: Dynamic, index: number): string | undefined {
  const nameAt = read((dynamic.get(DT_SYMTAB) ?? Number.NaN) + index * SYMBOL_SIZE, 4)?.getUint32(0, true);
  const address = (dynamic.get(DT_STRTAB) ?? Number.NaN) + (nameAt ?? Number.NaN);
  // Near the end of a segment, a read of NAME_BYTES_MAX fails, so smaller sizes are tried.
  for (const size of [NAME_BYTES_MAX, 32, 16, 8]) {
    const view = read(address, size);
    if (!view) continue;
    const text = Buffer.from(view.buffer, view.byteOffset, size).toString('latin1');
    const end = text.indexOf('\0');
    if (end >= 0) return text.slice(0, end);
  }
  return undefined;
}

function* readTlsRelocations(read: ReadAddress, dynamic: Dynamic): Generator<TlsRelocation, void> {
  let left = TLS_RELOCATIONS_MAX;
  const tables: [from: number, size: number | undefined, skipped: number][] = [
    // The first DT_RELACOUNT relocations, most of the table, only add the load bias and have no symbol.
    [dynamic.get(DT_RELA) ?? 0, dynamic.get(DT_RELASZ), dynamic.get(DT_RELACOUNT) ?? 0],
    [dynamic.get(DT_JMPREL) ?? 0, dynamic.get(DT_PLTRELSZ), 0],
  ];
  for (const [table, size = 0, skipped] of tables) {
    const count = Math.floor(size / RELA_SIZE);
    for (let from = skipped; from < count; from += RELAS_PER_READ) {
      const relas = read(table + from * RELA_SIZE, Math.min(count - from, RELAS_PER_READ) * RELA_SIZE);
      if (!relas) break;
      for (let at = 0; at < relas.byteLength; at += RELA_SIZE) {
        const kind = KIND_BY_TYPE.get(relas.getUint32(at + 8, true));
        if (kind === undefined) continue;
        if (left-- === 0) return;
        const index = relas.getUint32(at + 12, true);
        const symbol = index === 0 ? undefined : readSymbolName(read, dynamic, index);
        if (index !== 0 && symbol === undefined) continue;
        yield { kind, address: readU64(relas, at), symbol, addend: readI64(relas, at + 16) };
      }
    }
  }
}

/*
 * Looks up a symbol in the dynamic linker's hash tables. Returns the index of the symbol for which `isNamed` is true,
 * or undefined.
 */

/** Reads exactly `size` bytes at an address of the loaded file; returns undefined if it cannot. */
type ReadAddress = (address: number, size: number) => DataView | undefined;

/** Maximum length of a hash chain. In a valid table, chains have only a few entries. */
const CHAIN_MAX = 1024;

/**
 * Looks up `name` in a table of this layout (DT_GNU_HASH):
 *
 *   buckets u32, first symbol u32, filter words u32, filter shift u32
 *   filter: two bits for each symbol in one of its 64-bit words
 *   bucket: index of the first symbol of its chain
 *   chain, from the first symbol on: the symbol's hash, with the low bit set if the symbol is the last of its chain
 */
function lookUpGnuHash(
  read: ReadAddress,
  table: number,
  name: string,
  isNamed: (index: number) => boolean,
): number | undefined {
  const head = read(table, 16);
  if (!head) return undefined;
  const [buckets, first, filterWords, shift] = [0, 4, 8, 12].map((at) => head.getUint32(at, true)) as QuadrupleOfU32;
  if (buckets === 0 || filterWords === 0) return undefined;
  const hash = computeGnuHash(name);
  const filter = read(table + 16 + ((hash >>> 6) % filterWords) * 8, 8);
  if (!filter || !hasBit(filter, hash) || !hasBit(filter, hash >>> shift)) return undefined;
  const bucketAt = table + 16 + filterWords * 8;
  const chainAt = bucketAt + buckets * 4;
  const start = read(bucketAt + (hash % buckets) * 4, 4)?.getUint32(0, true) ?? 0;
  if (start < first || start === 0) return undefined;
  for (let index = start; index < start + CHAIN_MAX; index++) {
    const link = read(chainAt + (index - first) * 4, 4)?.getUint32(0, true);
    if (link === undefined) return undefined;
    if ((link | 1) === (hash | 1) && isNamed(index)) return index;
    if (link & 1) return undefined;
  }
  return undefined;
}

type QuadrupleOfU32 = [number, number, number, number];

function hasBit(word: DataView, bit: number): boolean {
  return ((word.getUint32(bit & 32 ? 4 : 0, true) >>> (bit & 31)) & 1) === 1;
}

function computeGnuHash(name: string): number {
  let hash = 5381;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 33) + name.charCodeAt(i)) >>> 0;
  return hash;
}

/**
 * Looks up `name` in a table of this layout (DT_HASH):
 *
 *   buckets u32, chain links u32
 *   bucket: index of its first symbol
 *   chain link of each symbol: index of the next symbol, or 0
 */
function lookUpSysvHash(
  read: ReadAddress,
  table: number,
  name: string,
  isNamed: (index: number) => boolean,
): number | undefined {
  const buckets = read(table, 4)?.getUint32(0, true);
  if (!buckets) return undefined;
  let linkAt = table + 8 + (computeSysvHash(name) % buckets) * 4;
  for (let i = 0; i < CHAIN_MAX; i++) {
    const index = read(linkAt, 4)?.getUint32(0, true);
    if (!index) return undefined;
    if (isNamed(index)) return index;
    linkAt = table + 8 + buckets * 4 + index * 4;
  }
  return undefined;
}

function computeSysvHash(name: string): number {
  let hash = 0;
  for (let i = 0; i < name.length; i++) {
    hash = (hash << 4) + name.charCodeAt(i);
    const high = hash & 0xf0000000;
    hash = (hash ^ (high >>> 24)) & 0x0fffffff;
  }
  return hash;
}
