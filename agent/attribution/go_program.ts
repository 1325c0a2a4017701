/**
 * Detects Go programs: their goroutines move between threads, so a thread does not stay with the request that it read.
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** Sizes and offsets in ELF64 files (Elf64_Ehdr and Elf64_Shdr): elf(5). */
const HEADER_BYTES = 64;
const MAGIC = 0x464c457f;
const SECTIONS_MAX = 256;
const SECTION_BYTES = 64;
const NAMES_BYTES_MAX = 1 << 16;

/**
 * The section where the linker puts the versions of what it linked; stripping keeps it. See cmd/link, debug/buildinfo.
 */
const GO_SECTION = '.go.buildinfo';

/** Start of that section's contents, which are near the start of the program's writable data: debug/buildinfo. */
const GO_MAGIC = Buffer.from('\xff Go buildinf:', 'latin1');
const DATA_BYTES_MAX = 1 << 20;

const SEGMENT_BYTES = 56;
const SEGMENTS_MAX = 64;
const PT_LOAD = 1;
const PF_W = 2;

/** Returns undefined if the program's file cannot be read. */
export function isGoProgram(pid: number): boolean | undefined {
  let file: number | undefined;
  try {
    file = openSync(`/proc/${pid}/exe`, 'r');
    return sectionNames(file).includes(GO_SECTION) || dataBegins(file).includes(GO_MAGIC);
  } catch {
    return undefined; // The process is gone or another user's, or the file is of another kind.
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function sectionNames(file: number): string[] {
  const header = bytesAt(file, 0, HEADER_BYTES);
  if (header.readUInt32LE(0) !== MAGIC || header.readUInt16LE(0x3a) !== SECTION_BYTES) return [];
  const count = Math.min(header.readUInt16LE(0x3c), SECTIONS_MAX);
  if (count === 0) return [];
  const sections = bytesAt(file, Number(header.readBigUInt64LE(0x28)), count * SECTION_BYTES);
  const namesAt = header.readUInt16LE(0x3e) * SECTION_BYTES;
  const size = Math.min(Number(sections.readBigUInt64LE(namesAt + 0x20)), NAMES_BYTES_MAX);
  return bytesAt(file, Number(sections.readBigUInt64LE(namesAt + 0x18)), size)
    .toString('latin1')
    .split('\0');
}

/** Start of the first writable segment. */
function dataBegins(file: number): Buffer {
  const header = bytesAt(file, 0, HEADER_BYTES);
  const count = Math.min(header.readUInt16LE(0x38), SEGMENTS_MAX);
  const segments = bytesAt(file, Number(header.readBigUInt64LE(0x20)), count * SEGMENT_BYTES);
  for (let at = 0; at + SEGMENT_BYTES <= segments.length; at += SEGMENT_BYTES) {
    const isData = segments.readUInt32LE(at) === PT_LOAD && segments.readUInt32LE(at + 4) & PF_W;
    if (!isData) continue;
    const size = Math.min(Number(segments.readBigUInt64LE(at + 0x20)), DATA_BYTES_MAX);
    return bytesAt(file, Number(segments.readBigUInt64LE(at + 8)), size);
  }
  return Buffer.alloc(0);
}

function bytesAt(file: number, offset: number, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  return bytes.subarray(0, readSync(file, bytes, 0, size, offset));
}
