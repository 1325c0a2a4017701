/** Whether a process runs a Go program: its goroutines move between threads, whatever those read. */
import { closeSync, openSync, readSync } from 'node:fs';

/** ELF64: Elf64_Ehdr and Elf64_Shdr, elf(5). */
const HEADER_BYTES = 64;
const MAGIC = 0x464c457f;
const SECTIONS_MAX = 256;
const SECTION_BYTES = 64;
const NAMES_BYTES_MAX = 1 << 16;

/** Where the linker puts the versions of what it linked; stripping leaves it. cmd/link, debug/buildinfo. */
const GO_SECTION = '.go.buildinfo';

export function isGoProgram(pid: number): boolean {
  let file: number | undefined;
  try {
    file = openSync(`/proc/${pid}/exe`, 'r');
    return sectionNames(file).includes(GO_SECTION);
  } catch {
    return false; // It is gone, or no file of this kind.
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function sectionNames(file: number): string[] {
  const header = bytesAt(file, 0, HEADER_BYTES);
  if (header.readUInt32LE(0) !== MAGIC || header.readUInt16LE(0x3a) !== SECTION_BYTES) return [];
  const count = Math.min(header.readUInt16LE(0x3c), SECTIONS_MAX);
  const sections = bytesAt(file, Number(header.readBigUInt64LE(0x28)), count * SECTION_BYTES);
  const namesAt = header.readUInt16LE(0x3e) * SECTION_BYTES;
  const size = Math.min(Number(sections.readBigUInt64LE(namesAt + 0x20)), NAMES_BYTES_MAX);
  return bytesAt(file, Number(sections.readBigUInt64LE(namesAt + 0x18)), size)
    .toString('latin1')
    .split('\0');
}

function bytesAt(file: number, offset: number, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  return bytes.subarray(0, readSync(file, bytes, 0, size, offset));
}
