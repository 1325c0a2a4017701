/**
 * Detects Go programs: their goroutines move between threads, so a thread does not stay with the request that it read.
 */
import { closeSync, openSync } from 'node:fs';
import { type Elf, fileReader, readElf } from './elf/elf.ts';

/**
 * The section where the linker puts the versions of what it linked; stripping keeps it. See cmd/link, debug/buildinfo.
 */
const GO_SECTION = '.go.buildinfo';

/** Start of that section's contents, which are near the start of the program's writable data: debug/buildinfo. */
const GO_MAGIC = Buffer.from('\xff Go buildinf:', 'latin1');
const DATA_BYTES_MAX = 1 << 20;

/**
 * Returns undefined if that is not known: the program's file cannot be read, or is not a 64-bit ELF file. A 32-bit
 * program may be one of Go as well.
 */
export function isGoProgram(pid: number): boolean | undefined {
  let file: number | undefined;
  try {
    file = openSync(`/proc/${pid}/exe`, 'r');
    const elf = readElf(fileReader(file));
    return elf && hasBuildInfo(elf);
  } catch {
    return undefined; // The process is gone or another user's.
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Packers remove the sections, but not the data. */
function hasBuildInfo(elf: Elf): boolean | undefined {
  const names = elf.sectionNames();
  if (!names) return undefined;
  if (names.includes(GO_SECTION)) return true;
  const data = elf.dataStart(DATA_BYTES_MAX);
  return data && Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(GO_MAGIC);
}
